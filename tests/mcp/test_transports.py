"""Servers made with the SDK, by both ways to reach one, and sites that go wrong."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.mcp.conftest import results, told
from tests.server import Call, Reply

SDK = Path(__file__).with_name("sdk_server.py")
ALL = ("--allow", "mcp__shop__*")


@pytest.fixture
def shop() -> Iterator[str]:
    """The address of a server made with the SDK."""
    with subprocess.Popen(
        [sys.executable, str(SDK), "http"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/mcp"
        finally:
            process.kill()


@pytest.fixture
def site() -> Iterator[Callable[..., str]]:
    """Makes a site that answers each POST by a function of its handler."""
    sites: list[ThreadingHTTPServer] = []

    def start(answer: Callable[[BaseHTTPRequestHandler], None]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                answer(self)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        sites.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}/mcp"

    yield start
    for each in sites:
        each.shutdown()
        each.server_close()


@pytest.mark.parametrize("way", ["program", "site"])
def test_a_server_made_with_the_sdk_is_used(agent, serve, server, request, way):
    if way == "site":
        server("shop", url=request.getfixturevalue("shop"))
    else:
        server("shop", command=sys.executable, args=[str(SDK)])
    calls = [
        Reply("", [Call("mcp__shop__price", {"article": "lamp", "count": 2})]),
        Reply("", [Call("mcp__shop__count", {"to": 3})]),
        Reply("", [Call("mcp__shop__price", {"count": "many"})]),
        Reply("done"),
    ]
    agent.use(serve(calls))
    run = agent("run", *ALL, "what does it cost?")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    price, counted, wrong = results(agent)
    assert price["extras"]["structured"] == {"price": 5.0}
    assert "5.0" in price["content"]
    assert counted["content"] == "counted to 3"
    assert wrong["extras"]["error"]
    assert "article" in wrong["content"]


def respond(status: int, *headers: tuple[str, str]) -> Callable[[BaseHTTPRequestHandler], None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in (*headers, ("content-length", "0")):
            handler.send_header(name, value)
        handler.end_headers()

    return answer


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"[" * 1_000_000)
    except OSError:
        pass


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (respond(401), "it wants a sign-in (HTTP 401), and OAuth is not supported"),
        (respond(500), "it answered with HTTP 500"),
        (respond(307, ("location", "http://127.0.0.1:1/")), "it refused: Redirect to"),
        (endless, "it sent more than 20 MB in one answer"),
    ],
)
def test_a_site_that_goes_wrong_is_left_out(agent, serve, server, site, answer, said):
    server("shop", url=site(answer))
    model = serve([Reply("done")])
    run = agent.use(model)("run", "go on")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    assert f"the tool server shop is left out: {said}" in run.stderr
    assert said in told(model, 0)


def test_a_site_that_is_not_there_is_left_out(agent, serve, server):
    server("shop", url="http://127.0.0.1:1/mcp", headers={"Authorization": "Bearer ${NOBODY}"})
    server("house", url="http://127.0.0.1:1/mcp")
    agent.use(serve([Reply("done")]))
    run = agent("run", "go on")
    assert "the tool server shop is left out: ${NOBODY} is not set" in run.stderr
    assert "the tool server house is left out: it can't be reached" in run.stderr
