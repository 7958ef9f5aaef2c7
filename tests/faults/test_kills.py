"""Killed at any moment, a session loses nothing, repeats nothing and says so."""

from __future__ import annotations

import json
from itertools import cycle

import pytest

from tests.faults import workload
from tests.faults.campaigns import APIS, KILLS, at_once, boundaries, kill_at, kill_at_random
from tests.faults.trial import Fault, InReply, Strike, Trial

SAMPLED = {"chat_completions": 29, "responses": 67, "anthropic_messages": 67}


@pytest.mark.parametrize("api", APIS)
def test_busy_sessions_killed_again_and_again(api):
    found = at_once(lambda seed: kill_at_random(api, seed), range(3))
    assert found.problems == []
    assert found.faults >= 3


@pytest.mark.parametrize("api", APIS)
def test_at_the_writes_of_a_session(api):
    writes = len(boundaries(api))
    assert writes > 100
    faults = [
        Fault(kind, at)
        for kind, at in zip(cycle(KILLS), range(0, writes, SAMPLED[api]), strict=False)
    ]
    found = at_once(lambda fault: kill_at(api, fault), faults)
    assert found.problems == []
    assert found.faults >= len(faults) - 2


def test_at_the_writes_of_a_session_where_there_are_no_unnamed_files():
    faults = [Fault(kind, at, unnamed=False) for kind, at in zip(cycle(KILLS), range(20, 150, 37))]
    found = at_once(lambda fault: kill_at("chat_completions", fault), faults)
    assert found.problems == []
    assert found.faults >= len(faults) - 2


@pytest.mark.parametrize("newest", ["000000002", "000000003"])
def test_right_after_the_task_was_given_the_model_still_learns_about_the_workspace(
    tmp_path, newest
):
    names = boundaries("chat_completions")
    at = next(n for n, name in enumerate(names) if name.endswith(f"events/{newest}.json"))
    with Trial(tmp_path / "t") as trial:
        assert trial.go(Fault("kill-after", at)).code == -9
        trial.finish()
        recalled = [
            json.loads(file.read_bytes())
            for file in (trial.session / "events").iterdir()
            if b'"observation":"recall"' in file.read_bytes()
        ]
    assert trial.problems == []
    assert len(recalled) == 1
    assert json.dumps(recalled[0]["content"])[1:-1].encode() in trial.server.requests[0].raw


@pytest.mark.parametrize("first", workload.marks(workload.SHORT))
def test_in_the_middle_of_a_command_then_in_the_next_reply(tmp_path, first):
    with Trial(tmp_path / "t") as trial:
        assert trial.go(Strike(first)).code == -9
        assert trial.go(InReply(step_after(first), 2)).code == -9
        trial.finish()
    assert trial.problems == []


def step_after(mark: str) -> int:
    return int(mark.split("-")[1])


@pytest.mark.parametrize("api", APIS)
def test_while_a_killed_session_is_resumed(tmp_path, api):
    """Each try to go on comes a little further before it is killed as well."""
    with Trial(tmp_path / "t", api) as trial:
        assert trial.go(Strike("mark-001-x-a")).code == -9
        for at in (3, 9, 12, 16):
            assert trial.go(Fault("kill-after", at)).code == -9
        trial.finish()
    assert trial.problems == []
