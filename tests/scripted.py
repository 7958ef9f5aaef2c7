"""Models that say what a test wrote down, without a server."""

from __future__ import annotations

from pathlib import Path

from tests.server import Call, Reply, Usage
from tests.server.chat_answer import render


def scripted(path: Path, *replies: Reply) -> str:
    """The name of a model that gives these replies; they are kept in the file `path`."""
    path.write_bytes(b"\n".join(render(reply, {}, Usage(100, 10))[0] for reply in replies))
    return f"scripted/{path}"


def bash(command: str) -> Reply:
    return Reply("", [Call("bash", {"command": command})])


def call(name: str, /, **arguments: object) -> Reply:
    return Reply("", [Call(name, arguments)])


def write(path: str, content: str) -> Reply:
    return Reply("", [Call("write", {"path": path, "content": content})])
