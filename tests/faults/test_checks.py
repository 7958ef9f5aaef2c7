"""The checks see what they are there to see."""

from __future__ import annotations

import pytest

from tests.faults.trial import Strike, Trial
from tests.faults.workload import JOURNAL


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    with Trial(tmp_path_factory.mktemp("killed") / "t") as trial:
        trial.go(Strike("mark-001-z-a"))
        assert trial.problems == []
        yield trial


@pytest.fixture
def look(killed):
    """Looks again, after which all is as it was."""
    paths = [*(killed.session / "events").iterdir(), killed.agent.workspace / JOURNAL]
    before = {path: path.read_bytes() for path in paths}
    yield lambda: "\n".join(killed.ledger.look(killed.agent.sessions, -9))
    for path, body in before.items():
        path.write_bytes(body)


def test_nothing_wrong(look):
    assert look() == ""


def test_a_lost_event(look, killed):
    (killed.session / "events" / "000000004.json").unlink()
    assert "000000004.json is gone or changed" in look()
    assert "000000005.json follows event 3" in look()


def test_a_torn_event(look, killed):
    newest = max((killed.session / "events").iterdir())
    newest.write_bytes(newest.read_bytes()[:20])
    assert f"{newest.name} is torn" in look()


def test_a_repeated_effect(look, killed):
    with (killed.agent.workspace / JOURNAL).open("a") as journal:
        journal.write("mark-001-x-a\n")
    assert "mark-001-x-a was done 2 times" in look()


def test_an_effect_without_an_action(look, killed):
    with (killed.agent.workspace / JOURNAL).open("a") as journal:
        journal.write("mark-009-x\n")
    assert "mark-009-x was done without an action" in look()
