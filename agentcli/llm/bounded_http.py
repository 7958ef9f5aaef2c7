"""The HTTP client that both SDKs use. It limits an answer's size as the answer arrives, so that
neither a long one nor a few bytes that unpack to many can take more memory than a reply may need.

Imported together with the SDKs, because nothing needs an HTTP client before that.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import httpx2

from agentcli.errors import ConfigError
from agentcli.llm.connections import certificates, proxy_for
from agentcli.llm.wire_protocol import CHECK_ADDRESS, Endpoint, ReplySize, bad_response

_KEEP_ALIVE_S = 300.0
"""A connection should outlast a command; one closed by the server is noticed and replaced."""
_LARGEST_ERROR = 1_000_000
"""Most bytes read of the answer to a refused request."""
_PIECE = 1 << 16
_PLAIN = ("", "identity", "none", "utf-8")
"""The last two are no encodings of HTTP, but what some proxies write."""
_PACKED = ("gzip", "x-gzip", "deflate")


def http_client(endpoint: Endpoint, size: ReplySize) -> httpx2.Client:
    """Return a client that limits each reply to `size` as it is when the reply begins. It follows
    no redirects, so that neither prompt nor key ever goes to another place, and loads certificates
    only for TLS. Raises ConfigError for a proxy or certificates that can't be used."""

    def bound(response: httpx2.Response) -> None:
        assert isinstance(response.stream, httpx2.SyncByteStream)
        packed = response.headers.pop("content-encoding", "").strip().lower()
        response.stream = _Bounded(response.stream, packed, size.most_bytes, response.status_code)

    address = endpoint.base_url
    proxy = proxy_for(address)
    try:
        return httpx2.Client(
            follow_redirects=False,
            headers={"accept-encoding": "identity"},
            limits=httpx2.Limits(keepalive_expiry=_KEEP_ALIVE_S),
            timeout=httpx2.Timeout(endpoint.read_timeout_s, connect=endpoint.connect_timeout_s),
            verify=not address.startswith("http://") and certificates(),
            proxy=proxy.url if proxy else None,
            # Proxies and certificates are looked up above.
            trust_env=False,
            event_hooks={"response": [bound]},
        )
    except ImportError as error:
        raise ConfigError(
            f"the proxy {proxy.shown if proxy else ''} speaks SOCKS, which needs socksio",
            hint="pip install socksio, where agent is installed; or name a proxy that speaks HTTP",
        ) from error
    except (ValueError, httpx2.InvalidURL) as error:
        if proxy is None:
            raise
        raise ConfigError(
            f"{proxy.shown} is no proxy that can be used",
            hint=f"correct {proxy.variable}, or unset it; http, https and socks5 are possible",
        ) from error


class _Bounded(httpx2.SyncByteStream):
    """The unpacked body of an answer. A reply that is too long raises LLMError; an error's body is
    cut off instead."""

    def __init__(
        self, stream: httpx2.SyncByteStream, packed: str, most_bytes: int, status: int
    ) -> None:
        self._stream = stream
        self._packed = packed
        self._is_reply = status < 300
        self._most_bytes = most_bytes if self._is_reply else _LARGEST_ERROR

    def __iter__(self) -> Iterator[bytes]:
        left = self._most_bytes
        for data in self._unpacked():
            if len(data) > left:
                break
            left -= len(data)
            yield data
        else:
            return
        if self._is_reply:
            sent = f"the server sent more than {self._most_bytes / 1e6:.0f} MB"
            raise bad_response(f"{sent}, too much for a reply", CHECK_ADDRESS)

    def close(self) -> None:
        self._stream.close()

    def _unpacked(self) -> Iterator[bytes]:
        if self._packed in _PLAIN:
            yield from self._stream
            return
        if self._packed not in _PACKED:
            raise httpx2.DecodingError(
                f"it is compressed as {self._packed[:40]}, which was not asked for"
            )
        # This value of wbits accepts both formats.
        unpacker = zlib.decompressobj(wbits=47)
        try:
            for data in self._stream:
                while data:
                    yield unpacker.decompress(data, _PIECE)
                    data = unpacker.unconsumed_tail
            yield unpacker.flush()
        except zlib.error as error:
            raise httpx2.DecodingError(str(error)) from error
        if not unpacker.eof:
            raise httpx2.DecodingError("the compressed data is incomplete")
