"""What the kernel is asked to do, in its order: nothing is done that is not on the disk yet."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator

import pytest

from tests.conftest import LIMIT_S, PYTHON
from tests.server import Call, Reply

_CALLS = "openat,link,linkat,rename,renameat,renameat2,fsync,fdatasync"
_BEGUN = re.compile(r"(\d+) +(.*) <unfinished \.\.\.>")
_RESUMED = re.compile(r"(\d+) +<\.\.\. \w+ resumed>(.*)")
_DONE = re.compile(r"\d+ +(\w+)\((.*)\) += \d+(?:<.*>)?")
_EVENT = re.compile(r"/events>, \"(\d{9}\.json)\"")
_EFFECT = re.compile(r"\"[^\"]*(effect-\d)\"")


@pytest.fixture
def traced(agent, tmp_path):
    """Runs `agent` and tells the calls that succeeded, as (name, arguments), in order."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")

    def run(*arguments: str) -> list[tuple[str, str]]:
        record = tmp_path / "calls"
        options = ["-f", "-y", "-s", "4096", "-e", f"trace={_CALLS}", "-o", str(record)]
        done = subprocess.run(
            ["strace", *options, *agent.command, *arguments],
            cwd=agent.workspace,
            env=agent.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        if "ptrace" in done.stderr:
            pytest.skip(f"no process can be traced here: {done.stderr}")
        assert done.returncode == 0, done.stderr
        return list(_succeeded(record.read_text(errors="replace").splitlines()))

    return run


def _succeeded(lines: list[str]) -> Iterator[tuple[str, str]]:
    """A call during which another process or thread made one takes two lines."""
    begun: dict[str, str] = {}
    for line in lines:
        if found := _BEGUN.fullmatch(line):
            begun[found[1]] = line.removesuffix(" <unfinished ...>")
            continue
        found = _RESUMED.fullmatch(line)
        if found := _DONE.fullmatch(begun.pop(found[1]) + found[2] if found else line):
            yield found[1], found[2]


def test_actions_are_on_the_disk_by_name_before_they_run(agent, serve, traced):
    """By name: an event that was synced without its folder can be lost all the same."""
    calls = [
        Call("write", {"path": "effect-1", "content": "x"}),
        Call("bash", {"command": "echo x > effect-2"}),
        Call("python", {"code": "open('effect-3', 'w').close()"}),
    ]
    agent.use(serve([*(Reply("", [call]) for call in calls), Reply("Done.")]))
    agent.env["AGENT_HOME"] = str(agent.home / "made/for/it")
    made = traced("run", "--no-sandbox", "--yolo", *PYTHON, "x")
    [session] = agent.home.glob("made/for/it/sessions/*")
    events = {path.name: json.loads(path.read_text()) for path in session.glob("events/*.json")}
    unsynced: set[str] = set()
    above = {f"<{folder}>" for folder in (session, *session.parents[:5])}
    seen, effects = set(), set()
    for name, arguments in made:
        if name == "fsync":
            above = {folder for folder in above if not arguments.endswith(folder)}
        if name in ("fsync", "fdatasync") and arguments.endswith("/events>"):
            unsynced.clear()
        elif name != "openat" and (event := _EVENT.search(arguments)):
            seen.add(event[1])
            unsynced |= {event[1]} if "action" in events[event[1]] else set()
        elif (effect := _EFFECT.search(arguments)) and (name != "openat" or "O_CREAT" in arguments):
            effects.add(effect[1])
            assert not unsynced, f"{effect[1]} was made while {sorted(unsynced)} could be lost"
            assert not above, f"{effect[1]} was made while the session in {above} could be lost"
    assert seen == events.keys()
    assert effects == {"effect-1", "effect-2", "effect-3"}


def test_a_copy_is_on_the_disk_by_name_before_it_is_told(agent, serve, traced, repository):
    agent.use(serve([Reply("Two.")]))
    agent("run", "what is 1 + 1?")
    made = traced("fork", agent.sessions[0].name)
    sessions = f"<{agent.sessions[0].parent}>"
    named = [
        at for at, (name, given) in enumerate(made) if name == "rename" and "/sessions/" in given
    ]
    synced = [at for at, (name, given) in enumerate(made) if name == "fsync" and sessions in given]
    assert max(synced, default=-1) > max(named)
