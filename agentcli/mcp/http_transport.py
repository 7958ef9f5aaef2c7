"""Talk to a server over HTTP, with the SDK's transport and a client that enforces limits."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp.client.streamable_http import streamable_http_client

from agentcli.mcp.plan import HttpServer
from agentcli.mcp.transport import MOST_BYTES, MOST_UNASKED, Health, Streams

_CONNECT_S = 10.0
_SIGN_IN = (
    "it wants a sign-in (HTTP 401), and OAuth is not supported: give it a token, such as "
    'headers = { Authorization = "Bearer ${TOKEN}" }'
)
_STATUS = {
    401: _SIGN_IN,
    403: "it refuses the credentials in its headers (HTTP 403)",
    404: "it has nothing at this address, or no longer knows the session (HTTP 404)",
}


@asynccontextmanager
async def http_streams(
    server: HttpServer, timeout_s: float, health: Health
) -> AsyncGenerator[Streams]:
    timeout = httpx2.Timeout(timeout_s + 5, connect=_CONNECT_S)
    client = _Watched(
        headers={**server.headers, "accept-encoding": "identity"},
        timeout=timeout,
        verify=not server.url.startswith("http://"),
        follow_redirects=False,
    )
    client.health = health
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MOST_BYTES
        ) as streams,
    ):
        yield streams


class _Watched(httpx2.AsyncClient):
    """An HTTP client that limits the size of each answer and notes why a request failed, as the SDK
    only gives a number."""

    health: Health

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method == "POST":
                self.health.fault = f"it can't be reached: {error or type(error).__name__}"
            raise
        if request.method == "POST":
            self.health.fault = _fault(response.status_code)
        packed = response.headers.get("content-encoding", "identity")
        if packed != "identity":
            raise httpx2.DecodingError(
                f"it is compressed as {packed[:40]}, which was not asked for"
            )
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, self.health)
        return response


def _fault(status: int) -> str:
    """Say why the server can't be used any more, or "". A server that lacks a method may answer 400
    or 405, which does not end the connection."""
    if status in _STATUS:
        return _STATUS[status]
    return f"it answered with HTTP {status}" if status >= 500 else ""


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer. Raises ReadError if it exceeds a limit, as some may never end."""

    def __init__(self, stream: httpx2.AsyncByteStream, health: Health) -> None:
        self._stream = stream
        self._health = health

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_UNASKED
        async for data in self._stream:
            left -= len(data)
            if left < 0:
                self._health.fault = f"it sent more than {MOST_UNASKED / 1e6:.0f} MB in one answer"
                raise httpx2.ReadError(self._health.fault)
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()
