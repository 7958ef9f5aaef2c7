"""Fetch a page, with each address checked and size and time bounded, and turn it into text.

The HTTP client is the one that the SDKs use, with a network backend of ours that decides where to
connect, so that names are looked up once and certificates are checked against the name.
"""

from __future__ import annotations

import functools
import json
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import urldefrag, urljoin
from urllib.request import getproxies, proxy_bypass

import httpcore2
import httpx2
from httpcore2 import SOCKET_OPTION, NetworkBackend, NetworkStream

from agentcli import __version__
from agentcli.errors import ToolError
from agentcli.web.addresses import (
    JudgeURL,
    Page,
    PageLimits,
    connect,
    is_own_service,
    look_up,
    port_of,
    site_of,
    split_url,
)

MAX_REDIRECTS = 5
_HEADERS = {
    "user-agent": f"agent/{__version__}",
    "accept": "text/html, text/markdown, text/plain, application/json, */*;q=0.5",
    "accept-encoding": "gzip, deflate",
}
_NETWORK_FAULTS = (
    *(OSError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError),
    *(httpcore2.NetworkError, httpcore2.ProtocolError, httpcore2.ProxyError),
)


def fetch(url: str, limits: PageLimits, judge: JudgeURL) -> Page:
    """Get `url`, which must be allowed already, and follow up to MAX_REDIRECTS redirects that the
    rules allow or that stay on the same site. Raises ToolError, in words for the model."""
    end = time.monotonic() + limits.seconds
    for _ in range(MAX_REDIRECTS + 1):
        page = _get(url, limits, end)
        if not page.leads_to or not _may_follow(url, page.leads_to, limits, judge):
            return page
        url = page.leads_to
    raise _failed(f"{url} redirects more than {MAX_REDIRECTS} times.")


def _may_follow(url: str, target: str, limits: PageLimits, judge: JudgeURL) -> bool:
    """Return whether to follow a redirect. Only a service of this machine may lead to itself."""
    old, new = split_url(url), split_url(target)
    verdict = judge(target)
    if is_own_service(new.hostname or "", port_of(new), limits.open_ports):
        return verdict == "allow" and old.netloc == new.netloc
    same_site = site_of(old.hostname or "") == site_of(new.hostname or "")
    return verdict == "allow" or (verdict == "ask" and same_site)


def _get(url: str, limits: PageLimits, end: float) -> Page:
    host = _host_of(url)
    try:
        request = httpx2.Request("GET", urldefrag(url)[0], headers=_HEADERS)
        asked = request.url
        target = httpcore2.URL(
            scheme=asked.raw_scheme, host=asked.raw_host, port=asked.port, target=asked.raw_path
        )
        with (
            _pool(limits, end, _proxy_of(url, limits, end)) as pool,
            pool.stream("GET", target, headers=request.headers.raw) as answer,
        ):
            body = answer.iter_stream()
            got = httpx2.Response(
                answer.status, headers=answer.headers, content=body, request=request
            )
            return _page(url, got, limits, end)
    except TimeoutError as error:
        raise _failed(f"{host} did not answer within {limits.seconds:.0f} s.") from error
    except _NETWORK_FAULTS as error:
        raise _failed(f"{host} could not be reached: {_reason(error)}.") from error


def _page(url: str, got: httpx2.Response, limits: PageLimits, end: float) -> Page:
    if got.headers.get("content-encoding", "").count(",") > 1:
        raise _failed(f"{got.url.host} compressed the page more than twice.")
    status = f"{got.status_code} {got.reason_phrase}".strip()
    if got.is_redirect and (location := got.headers.get("location")):
        return Page(url, got.status_code, status, leads_to=_target(url, location))
    data, cut = _read(got, limits, end)
    kind = got.headers.get("content-type", "").partition(";")[0].strip().lower()
    return Page(url, got.status_code, status, data, kind, got.charset_encoding or "", cut)


def _target(url: str, location: str) -> str:
    try:
        target = urljoin(url, location)
    except ValueError as error:
        raise _failed(f"{url} redirects to an invalid address: {error}.") from error
    split_url(target)
    return target


def _read(got: httpx2.Response, limits: PageLimits, end: float) -> tuple[bytes, str]:
    """Return the body, and why it is incomplete, if it is."""
    data = bytearray()
    try:
        for piece in got.iter_bytes():
            data += piece
            if len(data) > limits.max_bytes:
                return bytes(data[: limits.max_bytes]), "longer than what is read of a page"
            _left(end)
    except TimeoutError:
        cut = f"not all of it came within {limits.seconds:.0f} s"
    except _NETWORK_FAULTS as error:
        cut = f"it broke off: {_reason(error)}"
    else:
        cut = ""
    if cut and not data:
        raise _failed(f"{got.url.host} answered {got.status_code}, but {cut}.")
    return bytes(data), cut


def _host_of(url: str) -> str:
    """Return the host of `url`. Raises ToolError if the HTTP client takes another host for it."""
    host = split_url(url).hostname or ""
    try:
        theirs = httpx2.URL(url).host
    except httpx2.InvalidURL as error:
        raise ToolError(
            f"{url} is not the address of a page: {error}.", error_id="bad_url"
        ) from error
    if theirs.strip("[]").lower() != host.lower():
        message = f"{url} is ambiguous: its host may be {host} or {theirs}."
        raise ToolError(message, error_id="bad_url")
    return host


# --- the network --------------------------------------------------------------------------------


class _Network(NetworkBackend):
    """Connects to addresses that were checked, or to the proxy that the user set; waits until `end`
    at most."""

    def __init__(self, limits: PageLimits, end: float, *, to_proxy: bool) -> None:
        self._limits = limits
        self._end = end
        self._to_proxy = to_proxy

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[SOCKET_OPTION] | None = None,
    ) -> NetworkStream:
        if self._to_proxy:
            connection = socket.create_connection((host, port), _left(self._end))
        else:
            endpoints = look_up(host, port, self._limits.open_ports, _left(self._end))
            connection = connect(endpoints, self._end)
        return _Stream(connection, self._end)


class _Stream(NetworkStream):
    """A connection that ignores the timeouts it is given, and waits until `end` at most."""

    def __init__(self, connection: socket.socket, end: float) -> None:
        self._socket = connection
        self._end = end

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        self._socket.settimeout(_left(self._end))
        return self._socket.recv(max_bytes)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._socket.settimeout(_left(self._end))
        self._socket.sendall(buffer)

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> NetworkStream:
        self._socket.settimeout(_left(self._end))
        try:
            wrapped = ssl_context.wrap_socket(self._socket, server_hostname=server_hostname)
        except BaseException:
            self.close()
            raise
        return _Stream(wrapped, self._end)

    def close(self) -> None:
        self._socket.close()


def _left(end: float) -> float:
    """Return the seconds left until `end`. Raises TimeoutError if there are none."""
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _pool(limits: PageLimits, end: float, proxy: str) -> httpcore2.ConnectionPool:
    """Return the connections of one request, through `proxy` if there is one."""
    network = _Network(limits, end, to_proxy=bool(proxy))
    if proxy:
        return httpcore2.HTTPProxy(proxy, ssl_context=_tls(), network_backend=network)
    return httpcore2.ConnectionPool(ssl_context=_tls(), network_backend=network)


@functools.cache
def _tls() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _proxy_of(url: str, limits: PageLimits, end: float) -> str:
    """Return the proxy that the environment sets for this address, or "". The address is checked
    all the same if its name can be looked up here. Raises ToolError."""
    parts = split_url(url)
    host, port = parts.hostname or "", port_of(parts)
    if not limits.proxied or proxy_bypass(host) or is_own_service(host, port, limits.open_ports):
        return ""
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    if proxy and not proxy.startswith("http://"):
        raise _failed("The proxy set in the environment is not an http:// proxy.")
    if proxy:
        try:
            look_up(host, port, (), _left(end))
        except ToolError as error:
            if error.error_id != "unreachable":
                raise
    return proxy


def _reason(error: Exception) -> str:
    return str(error).rstrip(".") or type(error).__name__


def _failed(message: str) -> ToolError:
    return ToolError(message, error_id="not_fetched")


_DRIVER = Path(__file__).with_name("page_driver.py")
_PATIENCE_S = 20.0
"""Seconds to wait for the driver, which usually ends earlier by its own limit on CPU time."""
_MOST_CHARS = 10_000_000
_HTML = ("text/html", "application/xhtml+xml")
_TEXTS = ("json", "xml", "javascript", "yaml", "toml", "x-sh", "x-ndjson", "graphql", "sql")
_BINARY_SAMPLE = 4_096

Form = Literal["html", "text", "pdf", "image", "binary"]
_DriverForm = Literal["html", "text", "pdf", "bare"]


@dataclass(frozen=True)
class Readable:
    """The text of a page. `note` says what was lost from it."""

    text: str
    title: str = ""
    charset: str = ""
    note: str = ""


def form_of(page: Page) -> Form:
    """Return the form of a page, by its first bytes if they are unmistakable, else by the content
    type that the server sent."""
    data, kind = page.data, page.content_type
    if data.startswith(b"%PDF-"):
        return "pdf"
    if kind in _HTML or (not kind and data[:500].lstrip().lower().startswith((b"<!doc", b"<html"))):
        return "html"
    if kind.startswith("text/") or any(name in kind for name in _TEXTS):
        return "text"
    if kind.startswith("image/"):
        return "image"
    if kind.startswith(("audio/", "video/", "font/")) or b"\0" in data[:_BINARY_SAMPLE]:
        return "binary"
    try:
        data[:_BINARY_SAMPLE].decode()
    except UnicodeDecodeError as error:
        return "binary" if error.start < len(data[:_BINARY_SAMPLE]) - 4 else "text"
    return "text"


def readable(page: Page, form: Literal["html", "text", "pdf"]) -> Readable:
    """Return HTML as Markdown, and everything else as text. Raises ToolError; an interrupt ends the
    driver."""
    found = _driven(page, form)
    if found is not None:
        return found
    if form == "html" and (bare := _driven(page, "bare")) is not None:
        note = "its form took too much time or memory to keep: its bare text"
        return Readable(bare.text, charset=bare.charset, note=note)
    raise ToolError(f"{page.url} can't be made readable.", error_id="unreadable_page")


def _driven(page: Page, form: _DriverForm) -> Readable | None:
    """Run the driver on the page; None if it failed, which can only be due to the page."""
    wanted = {
        "form": form,
        "url": page.url,
        "charset": page.charset,
        "path": sys.path,
        "most": _MOST_CHARS,
    }
    request = json.dumps(wanted).encode() + b"\n" + page.data
    try:
        # The driver gets almost none of the environment, so that a page can't get at API keys.
        done = subprocess.run(
            [sys.executable, "-I", "-S", str(_DRIVER)],
            input=request,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if k == "LD_LIBRARY_PATH"},
            timeout=_PATIENCE_S,
            start_new_session=True,
        )
        answer = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return None
    if missing := answer.get("missing"):
        if missing == "pypdf":
            message = f"{page.url} is a PDF. Get its text with bash: pdftotext -layout FILE -"
            raise ToolError(f"{message} (poppler-utils).", error_id="unsupported_file")
        message = f"{missing}, which reads pages, is not installed."
        raise ToolError(message, error_id="tool_failed")
    return Readable(answer["text"], answer["title"], answer["charset"])
