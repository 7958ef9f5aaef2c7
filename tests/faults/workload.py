"""What the model does in a trial, and what the workspace needs for it.

Each reply carries `mark-NNN` in its text or calls, so the next one is known from the request alone:
a reply that was lost with the process that asked for it is given again. Each command with a lasting
effect writes a mark of its own to the journal, where one that was repeated shows.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tests.server import Call, Recorded, Reply

TASK = "do all of it"
DONE = "All of it is done."
JOURNAL = "journal"
_MARK = re.compile(rb"mark-([0-9]{3})")
_LOG_SCRIPT = """\
echo "$1" >> journal
if [ -e "strikes/$1" ]; then rm "strikes/$1"; kill -KILL $PPID; fi
"""


def prepare(workspace: Path) -> None:
    """What the commands of a trial find: `log MARK` writes to the journal and, when `strikes/MARK`
    exists, kills the agent right after, in the middle of the command."""
    workspace.mkdir(parents=True)
    (workspace / "strikes").mkdir()
    (workspace / "made").mkdir()
    (workspace / "log").write_text(_LOG_SCRIPT)
    (workspace / "notes.txt").write_text("".join(f"line {number}\n" for number in range(200)))


def log(mark: str, **options: object) -> Call:
    """A command with two effects, one before and one after the moment at which it may be killed."""
    return Call("bash", {"command": f". ./log {mark}-a; . ./log {mark}-b", **options})


def make(mark: str) -> Call:
    return Call("write", {"path": f"made/{mark}.txt", "content": f"{mark}\n" * 20})


SHORT: tuple[Reply, ...] = (
    Reply("First mark-001.", [log("mark-001-x"), make("mark-001-y"), log("mark-001-z")]),
    Reply(
        "",
        [
            Call("read", {"path": "notes.txt"}),
            Call("grep", {"pattern": "mark-002|line 1"}),
            log("mark-002-x"),
        ],
    ),
    Reply(DONE),
)
BUSY: tuple[Reply, ...] = (
    *SHORT[:2],
    Reply("Long. mark-003", [Call("bash", {"command": ". ./log mark-003-x; seq 20000"})]),
    Reply(
        "",
        [
            Call("read", {"path": "made/mark-001-y.txt", "end": 3}),
            Call("glob", {"pattern": "**/*mark-004*"}),
            Call("read", {"path": "nowhere"}),
        ],
    ),
    Reply("Behind. mark-005", [log("mark-005-x", background=True), log("mark-005-y")]),
    Reply(
        "Ändern … mark-006 " + "wörter " * 40,
        [
            Call("edit", {"path": "notes.txt", "old_str": "line 7\n", "new_str": "mark-006\n"}),
            make("mark-006-x"),
            log("mark-006-y"),
            Call("read", {"path": "notes.txt"}),
        ],
        reasoning="mark-006 needs thought",
    ),
    Reply(
        "mark-007", [Call("bash", {"command": ". ./log mark-007-x; (exit 3)"}), Call("bash", "{")]
    ),
    Reply(
        "Plan mark-008.",
        [
            Call("todo", {"tasks": [{"title": "mark-008", "status": "in_progress"}]}),
            *[log(f"mark-008-{letter}") for letter in "uvw"],
        ],
    ),
    Reply(DONE),
)


def step_of(request: Recorded) -> int:
    """How many replies the conversation in `request` already has."""
    return max((int(number) for number in _MARK.findall(request.raw)), default=0)


def marks(steps: Sequence[Reply]) -> list[str]:
    """The journal's marks at which a strike may be, in order."""
    calls = [call.raw for reply in steps for call in reply.calls if "background" not in call.raw]
    return re.findall(r"\. \./log (\S+?)[;\"]", " ".join(calls))
