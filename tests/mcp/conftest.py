"""What tests of tool servers work with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import talk  # noqa: F401 - a fixture

PLAIN = Path(__file__).with_name("plain_server.py")


@pytest.fixture
def server(agent) -> Callable[..., None]:
    """Puts a server into the user's settings: by default the plain one, in a mode. It may take its
    time to start, as many do at once on a busy machine."""
    folder = agent.home / ".config" / "agent"
    folder.mkdir(parents=True)
    lines: list[str] = []

    def add(name: str, *arguments: str, **settings: object) -> None:
        command = {"command": sys.executable, "args": [str(PLAIN), *arguments]}
        patient = {"start_timeout_s": 300.0}
        fields = {**({} if "url" in settings else command), **patient, **settings}
        lines.append(f"[mcp_servers.{name}]")
        lines.extend(f"{key} = {_toml(value)}" for key, value in fields.items())
        (folder / "config.toml").write_text("\n".join([*lines, ""]))

    return add


def _toml(value: object) -> str:
    if isinstance(value, dict):
        members = (f"{json.dumps(key)} = {json.dumps(member)}" for key, member in value.items())
        return f"{{ {', '.join(members)} }}"
    return json.dumps(value)


def records(agent) -> list[dict]:
    """The events of all sessions, those of each in order."""
    paths = (path for folder in agent.sessions for path in sorted(folder.glob("events/*.json")))
    return [json.loads(path.read_text()) for path in paths]


def results(agent) -> list[dict]:
    """What came of calls of servers' tools."""
    return [each for each in records(agent) if each.get("observation") == "mcp"]


def tools_told(server, request: int = 0) -> dict[str, dict]:
    """The schemas of a request, by name."""
    return {
        each["function"]["name"]: each["function"]
        for each in server.requests[request].body["tools"]
    }


def told(server, request: int = -1) -> str:
    return json.dumps(server.requests[request].body["messages"], ensure_ascii=False)
