"""Up to the moment at which a new session holds its task: nobody is told its id, and what ends the
run leaves nothing of it."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

from tests.faults.campaigns import SIGNALS, Findings, at_once, boundaries
from tests.faults.trial import Ended, Fault, Trial

API = "chat_completions"
ID = re.compile(r"\d{8}-\d{6}-[0-9a-f]{4}(?= ·)")


@pytest.fixture(scope="module")
def task_at() -> int:
    """The write boundary at which the task gets its name on the disk."""
    names = boundaries(API)
    return next(n for n, name in enumerate(names) if name.endswith("events/000000002.json"))


def start(fault: Fault, check: Callable[[Trial, Ended], bool]) -> Findings:
    """One start with a fault, and whether `check` found all as it should be."""
    with tempfile.TemporaryDirectory() as folder, Trial(Path(folder) / "t") as trial:
        ended = trial.go(fault)
        good = check(trial, ended)
        problems = [] if good else [f"{fault}: {ended.code} {trial.agent.sessions} {ended.err}"]
        return Findings(1, 1, problems)


def every_start(faults: list[Fault], check: Callable[[Trial, Ended], bool]) -> None:
    assert at_once(lambda fault: start(fault, check), faults).problems == []


def test_an_id_that_was_told_is_one_that_can_be_resumed(task_at):
    def check(trial: Trial, ended: Ended) -> bool:
        told = ID.findall(ended.err)
        known = trial.session is not None and told == [trial.session.name]
        return ended.code == -9 and (not told or known)

    kinds = cycle(("kill-before", "kill-after"))
    moments = range(task_at % 3, task_at + 6, 3)
    every_start([Fault(kind, at) for kind, at in zip(kinds, moments, strict=False)], check)


def test_a_disk_that_is_full_is_named_with_its_room_and_keeps_nothing(task_at):
    def check(trial: Trial, ended: Ended) -> bool:
        words = (str(trial.sessions), "kB free", "free some space")
        gone = trial.agent.sessions == [] and not ID.findall(ended.err)
        return ended.code == 1 and gone and all(word in ended.err for word in words)

    every_start([Fault("ENOSPC", at) for at in range(0, task_at, 4)], check)


@pytest.mark.parametrize("kind", ["EROFS", "EIO"])
def test_a_broken_disk_is_named(task_at, kind):
    def check(trial: Trial, ended: Ended) -> bool:
        return ended.code == 1 and all(word in ended.err for word in (str(trial.sessions), "free"))

    every_start([Fault(kind, at) for at in range(0, task_at, 7)], check)


def test_asked_to_stop_before_it_has_its_task_a_session_is_gone(task_at):
    def check(trial: Trial, ended: Ended) -> bool:
        left = trial.agent.sessions
        told = ID.findall(ended.err)
        return ended.code in (130, 143) and told == [folder.name for folder in left]

    kinds = cycle(SIGNALS)
    every_start(
        [Fault(kind, at) for kind, at in zip(kinds, range(0, task_at, 3), strict=False)], check
    )
