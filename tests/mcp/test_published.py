"""Servers that others have published, as they come from PyPI and npm, by both ways to reach one."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import git
from tests.mcp.conftest import results
from tests.server import Call, Reply

pytestmark = pytest.mark.campaign
_FROM_PYPI = ("mcp-server-time", "mcp-server-git", "mcp-server-fetch")
_FROM_NPM = (
    "@modelcontextprotocol/server-everything",
    "@modelcontextprotocol/server-filesystem",
)
FETCH = ("-m", "mcp_server_fetch", "--allow-private-ips")
_LIMIT_S = 300


def installed(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S)
    if done.returncode:
        pytest.skip(f"no index to install from: {done.stderr[-300:]}")


@pytest.fixture
def python(agent) -> Path:
    """An interpreter with the servers from PyPI, where commands see it."""
    folder = agent.workspace / ".venv"
    installed(sys.executable, "-m", "venv", str(folder))
    installed(str(folder / "bin" / "pip"), "install", "-q", *_FROM_PYPI)
    return folder / "bin" / "python"


@pytest.fixture
def modules(agent) -> Path:
    """The folder of the servers from npm."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    folder = agent.workspace / ".npm"
    folder.mkdir()
    installed(npm, "install", "--silent", "--no-audit", "--prefix", str(folder), *_FROM_NPM)
    return folder / "node_modules" / "@modelcontextprotocol"


@pytest.fixture
def page(tmp_path) -> Iterator[str]:
    """The address of a page on this machine."""
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "index.html").write_text("<h1>Opening hours</h1><p>From nine to five.</p>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{site.server_address[1]}/index.html"
        site.shutdown()


def answers(agent, serve, *calls: Call) -> list[dict]:
    agent.use(serve([*(Reply("", [call]) for call in calls), Reply("done")]))
    run = agent("run", "--allow", "mcp__x__*", "try them")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    return results(agent)


def test_time(agent, serve, server, python):
    server("x", command=str(python), args=["-m", "mcp_server_time", "--local-timezone", "UTC"])
    converted = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    now, then = answers(
        agent,
        serve,
        Call("mcp__x__get_current_time", {"timezone": "UTC"}),
        Call("mcp__x__convert_time", converted),
    )
    assert '"timezone": "UTC"' in now["content"]
    assert "T21:00:00+09:00" in then["content"]


def test_git(agent, serve, server, python, repository):
    server("x", command=str(python), args=["-m", "mcp_server_git"])
    (repository / "tally.py").write_text("changed\n")
    place = {"repo_path": str(repository)}
    added, status = answers(
        agent,
        serve,
        Call("mcp__x__git_add", {**place, "files": ["tally.py"]}),
        Call("mcp__x__git_status", place),
    )
    assert not added["extras"].get("error"), added
    assert "tally.py" in status["content"]
    assert "tally.py" in git(repository, "diff", "--cached", "--name-only")


def test_fetch(agent, serve, server, python, page):
    server("x", command=str(python), args=[*FETCH], network=True)
    [read] = answers(agent, serve, Call("mcp__x__fetch", {"url": page}))
    assert "From nine to five." in read["content"]


def test_filesystem(agent, serve, server, modules):
    program = modules / "server-filesystem" / "dist" / "index.js"
    server("x", command="node", args=[str(program), str(agent.workspace)])
    place = agent.workspace / "made.txt"
    written, outside = answers(
        agent,
        serve,
        Call("mcp__x__write_file", {"path": str(place), "content": "hello"}),
        Call("mcp__x__read_text_file", {"path": str(agent.home / "secret")}),
    )
    assert "Successfully wrote" in written["content"]
    assert place.read_text() == "hello"
    assert outside["extras"]["error"]


@pytest.mark.parametrize("way", ["stdio", "streamableHttp"])
def test_everything(agent, serve, server, modules, way):
    program = modules / "server-everything" / "dist" / "index.js"
    process = None
    if way == "stdio":
        server("x", command="node", args=[str(program), "stdio"])
    else:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        process = subprocess.Popen(
            ["node", str(program), way],
            env={**os.environ, "PORT": str(port)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        assert b"listening" in process.stderr.readline().lower()
        server("x", url=f"http://127.0.0.1:{port}/mcp")
    try:
        total, image, long, roots = answers(
            agent,
            serve,
            Call("mcp__x__get-sum", {"a": 2, "b": 40}),
            Call("mcp__x__get-tiny-image", {}),
            Call("mcp__x__trigger-long-running-operation", {"duration": 1, "steps": 3}),
            Call("mcp__x__get-roots-list", {}),
        )
    finally:
        if process is not None:
            process.kill()
            process.wait()
    assert "42" in total["content"]
    assert image["extras"]["image_urls"][0].startswith("data:image/png;base64,")
    assert "completed" in long["content"]
    assert str(agent.workspace) in roots["content"]
