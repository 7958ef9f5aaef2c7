"""The process that drives the browser: it starts Chromium, keeps one page open and carries out
requests. Each request and each answer is a line of JSON. It ends when its standard input does.

It is a process of its own so that it can be killed at any time, on an interrupt or when a page
hangs.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from typing import Any

from playwright.async_api import BrowserContext, Error, async_playwright

from agentcli.browser.proxy import MOST_BYTES, NetworkAccess, Proxy
from agentcli.browser.steps import Steps
from agentcli.browser.tabs import Tabs
from agentcli.sandbox.loopback import NamespaceSockets, has_own_network
from agentcli.system.processes import descendants

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


async def drive(wishes: asyncio.StreamReader) -> None:
    settings = json.loads(await wishes.readline())
    tabs = Tabs(lambda: proxy.hang_up())
    network = NetworkAccess(
        os.getppid(), own_loopback=settings["own_loopback"], open_ports=settings["open_ports"]
    )
    proxy = Proxy(network, tabs.wants, tabs.note)
    async with async_playwright() as playwright:
        try:
            listener = None if settings["own_network"] else _listening()
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
            reading = asyncio.create_task(_read(wishes, lines))
            while not reading.done():
                wish = json.loads(await lines.get())
                proxy.bytes_left = MOST_BYTES
                _answer(await Steps(tabs).perform(wish["steps"], wish["seconds"]))


async def _read(wishes: asyncio.StreamReader, lines: asyncio.Queue[bytes]) -> None:
    """Keep reading requests, also while one is carried out, to end as soon as the agent does."""
    while line := await wishes.readline():
        lines.put_nowait(line)
    os._exit(0)


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


def _listening() -> socket.socket:
    listener = socket.socket(socket.AF_INET)
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener


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


async def _main() -> None:
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    await drive(reader)


def main() -> None:
    asyncio.run(_main())
