from __future__ import annotations

import threading

import pytest

from agentcli.checkpoints.checkpointer import Checkpointer
from agentcli.checkpoints.snapshots import Checkpoint, CheckpointError
from agentcli.errors import TurnInterrupted
from agentcli.events.actions import CmdRunAction

RUN = [CmdRunAction(command="make")]


class SlowCheckpoints:
    """Each waits until it is let go, or fails."""

    has_few_objects = True

    def __init__(self, failure: str = "") -> None:
        self.go = threading.Event()
        self.failure = failure
        self.made = 0

    def take(self, touched, *, thorough):
        assert self.go.wait(60)
        self.was_thorough = thorough
        if self.failure:
            raise CheckpointError(self.failure)
        self.made += 1
        return Checkpoint(f"{self.made:040x}", ())


def checkpointer(kept: SlowCheckpoints) -> Checkpointer:
    return Checkpointer(lambda: kept, lambda _: True, lambda _: (), lambda: "")


def test_it_shows_that_it_lives_and_can_be_interrupted_again_and_again():
    kept = SlowCheckpoints()
    checkpoints = checkpointer(kept)

    def interrupt() -> None:
        raise TurnInterrupted("interrupted", 130)

    for _ in range(2):
        with pytest.raises(TurnInterrupted):
            checkpoints.before(RUN, 0, interrupt)
    made = checkpoints.before(RUN, 0, kept.go.set)
    assert made.tree == f"{kept.made:040x}"


def test_one_is_made_before_a_step_and_one_after_the_last():
    kept = SlowCheckpoints()
    kept.go.set()
    checkpoints = checkpointer(kept)
    assert checkpoints.at_turn_end(lambda: None) is None
    assert checkpoints.before(RUN, 0, lambda: None).moment == "before_step"
    assert checkpoints.before(RUN, 0, lambda: None) is None
    assert not kept.was_thorough
    assert checkpoints.at_turn_end(lambda: None).moment == "turn_end"
    assert kept.was_thorough
    assert checkpoints.at_turn_end(lambda: None) is None


def test_many_objects_are_not_looked_at_again_at_the_end_of_each_turn():
    kept = SlowCheckpoints()
    kept.go.set()
    kept.has_few_objects = False
    checkpoints = checkpointer(kept)
    checkpoints.before(RUN, 0, lambda: None)
    checkpoints.at_turn_end(lambda: None)
    assert not kept.was_thorough


def test_a_failure_is_told_once():
    kept = SlowCheckpoints("the disk is full")
    kept.go.set()
    checkpoints = checkpointer(kept)
    told = checkpoints.before(RUN, 0, lambda: None)
    assert (told.tree, told.content) == ("", "the disk is full")
    assert checkpoints.before(RUN, 1, lambda: None) is None
