"""Repair: what is intact of a damaged session is kept, and nothing is thrown away."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentcli.errors import SessionError, UsageError
from agentcli.events import Source
from agentcli.events.actions import MessageAction
from agentcli.sessions.session import SessionLog, read_session
from agentcli.sessions.upkeep import repair


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "20260101-000000-abcd"
    with SessionLog.create(folder) as session:
        for number in range(250):
            session.emit(MessageAction(content=str(number), source=Source.USER))
    return folder


def contents(folder: Path) -> list[str]:
    return [event.content for event in read_session(folder).events]


@pytest.mark.parametrize("damage", [lambda p: p.unlink(), lambda p: p.write_bytes(b'{"id":3')])
def test_what_a_page_holds_is_brought_back(folder, damage):
    damage(folder / "events" / "000000003.json")
    damage(folder / "events" / "000000104.json")
    with pytest.raises(SessionError, match=r"000000003\.json is"):
        SessionLog.open(folder)
    assert repair(folder, dry_run=True).restored == (3,)
    done = repair(folder)
    assert "000000003.json" in done.fault
    assert done.restored == (3, 104)
    assert contents(folder) == [str(number) for number in range(250)]
    SessionLog.open(folder).close()
    assert repair(folder).fault is None


def test_after_what_is_lost_the_rest_is_set_aside(folder):
    (folder / "events" / "000000220.json").unlink()
    assert repair(folder, dry_run=True).set_aside == tuple(range(221, 250))
    assert len(list((folder / "events").iterdir())) == 249
    assert repair(folder).set_aside == tuple(range(221, 250))
    assert contents(folder) == [str(number) for number in range(220)]
    assert len(list((folder / "events.bad").iterdir())) == 29
    with SessionLog.open(folder) as session:
        session.emit(MessageAction(content="on", source=Source.USER))


def test_an_event_that_is_no_event_ends_the_log_even_if_its_page_says_the_same(folder):
    strange = b'{"id":7,"timestamp":"2026-01-01T00:00:00Z","action":"message","args":{"x":1}}'
    (folder / "events" / "000000007.json").write_bytes(strange)
    (folder / "event_cache" / "0-99.json").unlink()
    done = repair(folder)
    assert done.set_aside == tuple(range(7, 250))
    assert len(contents(folder)) == 7


def test_a_session_in_use_is_not_repaired(folder):
    with SessionLog.open(folder), pytest.raises(UsageError, match="in use"):
        repair(folder)
