"""The process that drives the browser: it starts Chromium, keeps one page open and carries out
requests, each a line of JSON, as is each answer. It ends when its standard input does.

It is a process of its own so that it can be killed at any time, on an interrupt or when a page
hangs. Its proxy is the browser's only way to any network: it looks up each name once, checks the
address and connects to exactly that address, for pages and everything that they load.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, Error, async_playwright

from agentcli.browser.steps import Steps
from agentcli.browser.tabs import Tabs
from agentcli.errors import ToolError, os_error_text
from agentcli.sandbox.loopback import NamespaceSockets, has_own_network, listening_process
from agentcli.system.processes import descendants
from agentcli.web.addresses import bare_host, connect, look_up

MOST_BYTES = 500_000_000
"""Most bytes that may come in during one call of the tool."""
_MOST_CONNECTIONS = 100
_HEAD_BYTES = 64 * 1024
_CHUNK = 64 * 1024
_LOOK_UP_S, _CONNECT_S, _HEAD_S = 10.0, 15.0, 30.0
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_CONNECT = re.compile(rb"CONNECT (\[[\da-fA-F:.]+\]|[^\s:\[\]]+):(\d{1,5}) HTTP/1\.[01]")
_REQUEST = re.compile(rb"([A-Z]{1,20}) (http://\S+) (HTTP/1\.[01])")
_OF_THE_PROXY = (b"proxy-", b"connection:", b"keep-alive:")


class Refused(Exception):
    """A connection is refused; the text says why, in words for the model."""


class NetworkAccess:
    """What the browser may connect to: the public network, ports of this machine that the user
    opened and, if the session's commands have a loopback of their own (`own_loopback`), their
    servers there. `agent` is the pid of the process that the commands descend from."""

    def __init__(self, agent: int, *, own_loopback: bool, open_ports: list[int]) -> None:
        self._agent = agent
        self._own_loopback = own_loopback
        self._open_ports = open_ports
        self._namespaces: dict[int, NamespaceSockets] = {}

    def connect(self, host: str, port: int) -> socket.socket:
        """Connect to `host`. Blocks, and may be called from any thread. Raises Refused, OSError."""
        name = bare_host(host)
        is_loopback = name in _LOOPBACK or name.endswith(".localhost")
        if is_loopback and self._own_loopback and port not in self._open_ports:
            return self._connected_inside(port)
        try:
            endpoints = look_up(host.strip("[]"), port, self._open_ports, _LOOK_UP_S)
        except ToolError as error:
            message = error.message.partition(" Reach a server")[0]
            if is_loopback:
                message = (
                    f"127.0.0.1:{port} is the user's machine, and closed to pages: they can open "
                    f"it with --allow 'network(127.0.0.1:{port})'."
                )
            raise Refused(message) from error
        return connect(endpoints, time.monotonic() + _CONNECT_S)

    def _connected_inside(self, port: int) -> socket.socket:
        process = listening_process(self._agent, port)
        if process is None or not has_own_network(process):
            raise Refused(
                f"Nothing listens on 127.0.0.1:{port} in the sandbox of the commands: start the "
                "server in the background with bash."
            )
        for attempt in (1, 2):
            if process.pid not in self._namespaces:
                self._namespaces[process.pid] = NamespaceSockets(process)
            try:
                return self._namespaces[process.pid].connect(port)
            except OSError:
                self._namespaces.pop(process.pid).close()
                if attempt == 2:
                    raise
        raise AssertionError("the second attempt returns or raises")


class Proxy:
    """Serves one listening socket. It connects only to hosts for which `wants` says that a page
    asked for them, and reports each connection that was not made to `refuse`."""

    def __init__(
        self,
        network: NetworkAccess,
        wants: Callable[[str], Awaitable[bool]],
        refuse: Callable[[str, str], None],
    ) -> None:
        self._network = network
        self._wants = wants
        self._refuse = refuse
        self._free = asyncio.Semaphore(_MOST_CONNECTIONS)
        self._open: set[asyncio.StreamWriter] = set()
        self.bytes_left = MOST_BYTES

    def hang_up(self) -> None:
        """End all open connections."""
        for writer in self._open:
            writer.transport.abort()

    async def serve(self, listener: socket.socket) -> asyncio.Server:
        listener.setblocking(False)
        return await asyncio.start_server(self._handle, sock=listener, limit=_HEAD_BYTES)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with self._free:
            self._open.add(writer)
            with suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await self._answer(reader, writer)
            self._open.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_HEAD_S):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            await _refuse(writer, 431, "the head of the request is too long")
            return
        first, _, fields = head.partition(b"\r\n")
        if found := _CONNECT.fullmatch(first):
            host, port, sent = found[1].decode("ascii", "replace"), int(found[2]), b""
        elif found := _REQUEST.fullmatch(first):
            try:
                parts = urlsplit(found[2].decode("ascii"))
                host, port = parts.hostname or "", parts.port or 80
            except ValueError:
                await _refuse(writer, 400, "that is not a valid address")
                return
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            line = b" ".join([found[1], target.encode("ascii"), found[3]])
            # Only header lines that are meant for the server, not for the proxy.
            kept = [
                field
                for field in fields.removesuffix(b"\r\n\r\n").split(b"\r\n")
                if field and not field.lower().startswith(_OF_THE_PROXY)
            ]
            sent = b"\r\n".join([line, *kept, b"Connection: close", b"", b""])
        else:
            await _refuse(writer, 400, "that is not a request for a proxy")
            return
        await self._pass_on(host, port, sent, reader, writer)

    async def _pass_on(
        self,
        host: str,
        port: int,
        sent: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Connect to the host and copy data both ways. `sent` goes to the host first; if it is
        empty, the browser is told that it is connected."""
        if not await self._wants(host):
            await _refuse(writer, 403, "the browser itself is not served")
            return
        try:
            far = await asyncio.to_thread(self._network.connect, host, port)
        except Refused as why:
            self._refuse(f"{host}:{port}", str(why))
            await _refuse(writer, 403, str(why))
            return
        except OSError as error:
            self._refuse(f"{host}:{port}", f"{host}:{port}: {os_error_text(error)}.")
            await _refuse(writer, 502, os_error_text(error))
            return
        far_reader, far_writer = await asyncio.open_connection(sock=far, limit=_CHUNK)
        try:
            if sent:
                far_writer.write(sent)
            else:
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            up = asyncio.create_task(self._copy(reader, far_writer, counted=False))
            await self._copy(far_reader, writer, counted=True)
            up.cancel()
        finally:
            far_writer.close()

    async def _copy(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, counted: bool
    ) -> None:
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                if counted:
                    self.bytes_left -= len(data)
                    if self.bytes_left < 0:
                        why = f"more than {MOST_BYTES // 1_000_000} MB came in"
                        self._refuse("too much", f"Stopped loading: {why}.")
                        return
                target.write(data)
                await target.drain()
            if target.can_write_eof():
                target.write_eof()


async def _refuse(writer: asyncio.StreamWriter, status: int, why: str) -> None:
    body = why.encode()
    head = f"HTTP/1.1 {status} Refused\r\nContent-Type: text/plain; charset=utf-8\r\n"
    writer.write(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
    await writer.drain()


_INSIDE_PORT = 3128
"""Port of the proxy in the browser's own network, where nothing else listens."""
_START_S = 30.0
_LONGEST_LINE = 4_000_000
_VIEWPORT = {"width": 1280, "height": 800}
_OPTIONS = (
    *("--disable-quic", "--disable-extensions", "--disable-sync", "--no-pings"),
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--renderer-process-limit=4",
    "--js-flags=--max-old-space-size=1024",
)
_NAMES_ELSEWHERE = "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1"
"""Keeps the browser from looking names up: only the proxy does that."""


async def drive() -> None:
    wishes = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(wishes), sys.stdin)
    settings = json.loads(await wishes.readline())
    tabs = Tabs(lambda: proxy.hang_up())
    network = NetworkAccess(
        os.getppid(), own_loopback=settings["own_loopback"], open_ports=settings["open_ports"]
    )
    proxy = Proxy(network, tabs.wants, tabs.note)
    async with async_playwright() as playwright:
        try:
            own = settings["own_network"]
            listener = None if own else socket.create_server(("127.0.0.1", 0))
            port = listener.getsockname()[1] if listener else _INSIDE_PORT
            context = await _launch(playwright, settings, port)
            server = await proxy.serve(listener or _listening_inside())
        except (Error, OSError) as error:
            _answer({"failed": str(error)})
            return
        _answer({"ready": True})
        async with server:
            # Without the browser, no request can be carried out any more.
            context.on("close", lambda: os._exit(1))
            await tabs.follow(context)
            lines: asyncio.Queue[bytes] = asyncio.Queue()

            async def read() -> None:
                """Read requests also while one is carried out, to end as soon as the agent does."""
                while line := await wishes.readline():
                    lines.put_nowait(line)
                os._exit(0)

            reading = asyncio.create_task(read())
            while not reading.done():
                wish = json.loads(await lines.get())
                proxy.bytes_left = MOST_BYTES
                _answer(await Steps(tabs).perform(wish["steps"], wish["seconds"]))


async def _launch(playwright: Any, settings: dict[str, Any], port: int) -> BrowserContext:
    """Start Chromium. Raises Error."""
    names = () if settings["own_network"] else (_NAMES_ELSEWHERE,)
    return await playwright.chromium.launch_persistent_context(
        settings["profile"],
        executable_path=settings["program"],
        args=[*_OPTIONS, *names, f"--proxy-server=http://127.0.0.1:{port}"],
        ignore_default_args=["--disable-popup-blocking"],
        chromium_sandbox=settings["chromium_sandbox"],
        env=settings["env"],
        headless=True,
        accept_downloads=True,
        downloads_path=settings["downloads"],
        service_workers="block",
        viewport=_VIEWPORT,
        timeout=_START_S * 1000,
        handle_sigint=False,
        handle_sigterm=False,
        handle_sighup=False,
    )


def _listening_inside() -> socket.socket:
    """Listen in the network of the browser's sandbox. Raises OSError."""
    for process in descendants(os.getpid()):
        if not process.over and has_own_network(process):
            namespace = NamespaceSockets(process)
            try:
                return namespace.listen(_INSIDE_PORT)
            finally:
                namespace.close()
    raise OSError("the browser's sandbox has no network of its own")


def _answer(answer: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def main() -> None:
    asyncio.run(drive())
