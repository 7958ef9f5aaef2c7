"""Tasks for tests, each of which writes a file with one line, and a model that does them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tests.server import Call, Recorded, Reply

_CUT_OFF = re.compile("agent was killed|interrupted|Not started")


def task(id: str, **fields: Any) -> dict[str, Any]:
    return {"id": id, "prompt": f"Write {id}.", **fields}


def write_tasks(path: Path, tasks: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(each) + "\n" for each in tasks))
    return path


def play(request: Recorded) -> Reply:
    """Reply with a command that adds a line to the task's file, and after its result with the
    answer. A command that may have been cut off is checked before it is repeated."""
    messages = request.body["messages"]
    name = re.search(r"Write (\S+)\.", json.dumps(messages))
    assert name is not None
    write = f"echo {name[1]} >> {name[1]}.txt"
    done = [str(message["content"]) for message in messages if message["role"] == "tool"]
    if done and not _CUT_OFF.search(done[-1]):
        return Reply(f"{name[1]} is written.")
    command = f"test -s {name[1]}.txt || {write}" if done else write
    return Reply("", [Call("bash", {"command": command})])


def results(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
