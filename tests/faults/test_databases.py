"""A session in a database that is killed at any moment loses nothing and repeats nothing. If the
database goes away, the person is told, and the session goes on when it is back."""

from __future__ import annotations

from itertools import cycle

import pytest

from tests.faults.campaigns import at_once, boundaries, kill_at, kill_at_random, refuse_from
from tests.faults.trial import Fault, Meanwhile, Trial

API = "chat_completions"
_KILLS = ("kill-before", "kill-after")
_SAMPLED = 11


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request):
    """Return a function that creates stores, a new one each time."""
    if request.param == "sqlite":
        return lambda: "sqlite:///sessions.db"
    return request.getfixturevalue("postgresql").database


def test_busy_sessions_killed_again_and_again(stores):
    found = at_once(lambda seed: kill_at_random(API, seed, store=stores()), range(2))
    assert found.problems == []
    assert found.faults >= 2


def test_at_the_writes_of_a_session(stores):
    writes = boundaries(API, store=stores())
    of_database = [at for at, name in enumerate(writes) if name.split()[1].startswith("do_")]
    assert len(of_database) > 50
    faults = [Fault(kind, at) for kind, at in zip(cycle(_KILLS), of_database[::_SAMPLED])]
    found = at_once(lambda fault: kill_at(API, fault, store=stores()), faults)
    assert found.problems == []
    assert found.faults >= len(faults) - 2


def test_a_database_that_can_not_be_written_from_some_moment_on(stores):
    faults = [Fault("EIO", at) for at in (20, 61, 94)]
    found = at_once(lambda fault: refuse_from(API, fault, store=stores()), faults)
    assert found.problems == []


@pytest.mark.parametrize("step", [0, 1, 2])
def test_a_server_that_goes_away_during_a_reply(tmp_path, postgresql, step):
    with Trial(tmp_path / "t", API, store=postgresql.database()) as trial:
        ended = trial.go(Meanwhile(step, postgresql.stop, postgresql.start))
        assert ended.code == 1, ended.err
        assert "can't be written" in ended.err
        assert f"postgresql://agent@127.0.0.1:{postgresql.port}/postgres" in ended.err
        trial.finish()
    assert trial.problems == []
