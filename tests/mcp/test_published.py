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
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.conftest import git
from tests.mcp.conftest import results
from tests.server import Call, Reply

pytestmark = [
    pytest.mark.campaign,
    pytest.mark.skipif("EVERY_CASE" not in os.environ, reason="they are installed from an index"),
]
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
    rules = {call.name.rpartition("__")[0] + "__*" for call in calls}
    allowed = [word for rule in sorted(rules) for word in ("--allow", rule)]
    run = agent("run", *allowed, "try them")
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    return results(agent)


def test_those_from_pypi(agent, serve, server, python, repository, page):
    server("clock", command=str(python), args=["-m", "mcp_server_time", "--local-timezone", "UTC"])
    server("repository", command=str(python), args=["-m", "mcp_server_git"])
    server("pages", command=str(python), args=[*FETCH], network=True)
    (repository / "tally.py").write_text("changed\n")
    place = {"repo_path": str(repository)}
    converted = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    now, then, added, status, read = answers(
        agent,
        serve,
        Call("mcp__clock__get_current_time", {"timezone": "UTC"}),
        Call("mcp__clock__convert_time", converted),
        Call("mcp__repository__git_add", {**place, "files": ["tally.py"]}),
        Call("mcp__repository__git_status", place),
        Call("mcp__pages__fetch", {"url": page}),
    )
    assert '"timezone": "UTC"' in now["content"]
    assert "T21:00:00+09:00" in then["content"]
    assert not added["extras"].get("error"), added
    assert "tally.py" in status["content"]
    assert "tally.py" in git(repository, "diff", "--cached", "--name-only")
    assert "From nine to five." in read["content"]


def test_those_from_npm(agent, serve, server, modules):
    made = {"path": str(agent.workspace / "made.txt"), "content": "hello"}
    files = modules / "server-filesystem" / "dist" / "index.js"
    program = modules / "server-everything" / "dist" / "index.js"
    server("files", command="node", args=[str(files), str(agent.workspace)])
    server("local", command="node", args=[str(program), "stdio"])
    with listening(program) as port:
        server("remote", url=f"http://127.0.0.1:{port}/mcp")
        written, outside, *others = answers(
            agent,
            serve,
            Call("mcp__files__write_file", made),
            Call("mcp__files__read_text_file", {"path": str(agent.home / "secret")}),
            *everything("local"),
            *everything("remote"),
        )
    assert "Successfully wrote" in written["content"]
    assert (agent.workspace / "made.txt").read_text() == "hello"
    assert outside["extras"]["error"]
    for total, image, long, roots in (others[:4], others[4:]):
        assert "42" in total["content"]
        assert image["extras"]["image_urls"][0].startswith("data:image/png;base64,")
        assert "completed" in long["content"]
        assert str(agent.workspace) in roots["content"]


@contextmanager
def listening(program: Path) -> Iterator[int]:
    """The server of everything by its other way: its port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with subprocess.Popen(
        ["node", str(program), "streamableHttp"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        assert b"listening" in process.stderr.readline().lower()
        try:
            yield port
        finally:
            process.kill()


def everything(name: str) -> list[Call]:
    """Of what it has."""
    steps = {"duration": 1, "steps": 3}
    return [
        Call(f"mcp__{name}__get-sum", {"a": 2, "b": 40}),
        Call(f"mcp__{name}__get-tiny-image", {}),
        Call(f"mcp__{name}__trigger-long-running-operation", steps),
        Call(f"mcp__{name}__get-roots-list", {}),
    ]
