"""A disk that is full, broken or read-only, from any write on."""

from __future__ import annotations

from itertools import cycle

from tests.faults.campaigns import REFUSALS, at_once, boundaries, refuse_from
from tests.faults.trial import Fault, Trial

API = "chat_completions"


def test_nothing_more_is_done_nothing_is_lost_and_the_session_goes_on_later():
    writes = len(boundaries(API))
    faults = [
        Fault(kind, at) for kind, at in zip(cycle(REFUSALS), range(2, writes, 19), strict=False)
    ]
    found = at_once(lambda fault: refuse_from(API, fault), faults)
    assert found.problems == []
    assert found.faults >= len(faults) - 4


def test_no_action_runs_that_could_not_be_recorded(tmp_path):
    """The reply with the first command is refused as a whole: its group begins at its text."""
    names = [line.split(" ", 1)[1] for line in boundaries(API)]
    task = next(n for n, name in enumerate(names) if name.endswith("events/000000005.json"))
    with Trial(tmp_path / "t") as trial:
        ended = trial.go(Fault("ENOSPC", task + 2))
        assert ended.code == 1
        assert not (trial.agent.workspace / "journal").exists()
        trial.finish()
        assert (trial.agent.workspace / "journal").exists()
    assert trial.problems == []
