"""Recorded sessions come out as they did, and whatever has changed is found and named.

`python -m tests.recordings.make` makes the recordings anew.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.recordings.make import HERE, TASKS

Lines = list[dict[str, Any]]


pytestmark = pytest.mark.campaign


@pytest.mark.cases(len(TASKS))
@pytest.mark.parametrize("name", TASKS)
def test_each_recording_comes_out_as_it_did(agent, name):
    done = agent("replay", str(HERE / f"{name}.jsonl"), "--verify", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["verified"]
    assert told["calls_again"]
    assert not list((agent.home / ".cache" / "agent" / "scratch").iterdir())


def file(lines: Lines, path: str) -> dict[str, Any]:
    return next(line for line in lines if line.get("file") == path and "at" not in line)


def event(lines: Lines, number: int) -> dict[str, Any]:
    return next(line["event"] for line in lines if line.get("event", {}).get("id") == number)


def result_of(lines: Lines, said: str) -> int:
    """The number of the event that answers the call with `said` in its arguments."""
    calls = (
        line["event"]
        for line in lines
        if said in line.get("event", {}).get("tool_call_metadata", {}).get("raw_arguments", "")
    )
    call = next(calls)["id"]
    answers = (
        line["event"]["id"]
        for line in lines
        if line.get("event", {}).get("cause") == call
        and line["event"].get("observation") != "decision"
    )
    return next(answers)


def another_content(lines: Lines) -> int:
    file(lines, "src/b.txt")["text"] = "two\nthree\nfour\n"
    return result_of(lines, "wc -l")


def another_exit_code(lines: Lines) -> int:
    file(lines, "total.sh")["text"] += "exit 4\n"
    return result_of(lines, "total.sh")


def a_listing_in_another_order(lines: Lines) -> int:
    """Both files as long as the other one was."""
    a, b = file(lines, "src/a.txt"), file(lines, "src/b.txt")
    a["text"], b["text"] = b["text"], a["text"]
    return result_of(lines, "ls -S")


def a_file_that_is_missing(lines: Lines) -> int:
    lines.remove(file(lines, "pkg/part4.py"))
    return result_of(lines, "**/*.py")


def another_mode(lines: Lines) -> int:
    del file(lines, "run.sh")["mode"]
    return result_of(lines, "./run.sh")


def a_link_elsewhere(lines: Lines) -> int:
    file(lines, "latest")["link"] = "pkg/part2.py"
    return result_of(lines, '"latest"')


def other_bytes(lines: Lines) -> int:
    """Beyond what was shown of them."""
    file(lines, "long.txt")["text"] = "LINE\n" + "line\n" * 299
    return result_of(lines, "long.txt")


def a_result_that_was_made_up(lines: Lines) -> int:
    number = result_of(lines, "./test.sh")
    event(lines, number)["content"] = "ok"
    event(lines, number)["extras"]["metadata"]["exit_code"] = 0
    return number


def a_file_that_nothing_told_of(lines: Lines) -> int:
    """What a call wrote without a word is not what it wrote then."""
    changed = next(line for line in lines if line.get("at") and line["file"] == "in.txt")
    changed["text"] += "and more\n"
    return result_of(lines, "./test.sh")


def another_call(lines: Lines) -> int:
    call = event(lines, result_of(lines, "VALUE = 11"))["cause"]
    event(lines, call)["args"]["path"] = "pkg/part2.py"
    return call


CHANGES: dict[str, tuple[str, Callable[[Lines], int]]] = {
    "a changed file": ("shell_state", another_content),
    "another exit code": ("fix_a_bug", another_exit_code),
    "a listing in another order": ("shell_state", a_listing_in_another_order),
    "a missing file": ("files_of_all_kinds", a_file_that_is_missing),
    "another mode": ("files_of_all_kinds", another_mode),
    "a link elsewhere": ("files_of_all_kinds", a_link_elsewhere),
    "bytes that were not shown": ("files_of_all_kinds", other_bytes),
    "a result that was made up": ("fix_a_bug", a_result_that_was_made_up),
    "a file that nothing told of": ("fix_a_bug", a_file_that_nothing_told_of),
    "another call": ("files_of_all_kinds", another_call),
}


def changed(tmp_path: Path, what: str) -> tuple[Path, int]:
    """A recording in which that is different, and the event that must be named."""
    name, change = CHANGES[what]
    lines = [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().splitlines()]
    number = change(lines)
    path = tmp_path / "changed.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path, number


@pytest.mark.cases(len(CHANGES))
@pytest.mark.parametrize("what", CHANGES)
def test_each_difference_is_found_and_its_event_named(agent, tmp_path, what):
    path, number = changed(tmp_path, what)
    done = agent("replay", str(path), "--verify")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.startswith(f"event {number} differs: "), done.stdout
    if "order" in what:
        assert "the same lines, in another order" in done.stdout


def test_another_environment_is_found(agent):
    path = HERE / "shell_state.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    agent.env["TZ"] = "Asia/Tokyo"
    done = agent("replay", str(path), "--verify")
    assert done.stdout.startswith(f"event {result_of(lines, 'TZ:-')} differs: ")
    assert "-no zone\n+Asia/Tokyo" in done.stdout


def test_a_missing_tool_is_found(agent, tmp_path):
    path = HERE / "fix_a_bug.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    programs = tmp_path / "bin"
    programs.mkdir()
    folders = (Path("/bin"), Path("/usr/bin"))
    every = {program.name: program for folder in folders for program in folder.iterdir()}
    for name in every.keys() - {"awk", "gawk", "mawk"}:
        (programs / name).symlink_to(every[name])
    agent.env["PATH"] = str(programs)
    done = agent("replay", str(path), "--verify")
    assert done.stdout.startswith(f"event {result_of(lines, './test.sh')} differs: "), done.stderr
    assert "awk: not found" in done.stdout
