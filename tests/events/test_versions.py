"""What was ever stored can be read: a fixture for each released version, every class in it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from agentcli.events import event_from_dict, event_to_dict
from agentcli.events.base import EVENT_VERSION, UPGRADES, OpaqueEvent, upgraded
from agentcli.sessions.session import SessionLog, read_session
from tests.events.samples import CLASSES, sample

FIXTURES = Path(__file__).parents[1] / "fixtures"
VERSIONS = [f"v{number}" for number in range(1, EVENT_VERSION + 1)]


def lines(version: str) -> list[dict]:
    text = (FIXTURES / version / "events.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_event_of_a_released_version_is_understood(version):
    for record in lines(version):
        event = event_from_dict(record)
        assert not isinstance(event, OpaqueEvent), record
        assert event_from_dict(event_to_dict(event)) == event


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_the_fixture_of_this_version_has_every_class_as_it_is_written_today(cls):
    """A new class or field belongs in the fixture; one that a fixture of a released version would
    contradict needs a new version and an upgrade."""
    assert event_to_dict(sample(cls)) in lines(VERSIONS[-1])


@pytest.mark.parametrize("version", VERSIONS)
def test_a_session_of_a_released_version_goes_on(version, tmp_path):
    folder = tmp_path / "20261101-123059-abcd"
    shutil.copytree(FIXTURES / version / "session", folder)
    folder.chmod(0o700)
    (folder / "events").chmod(0o700)
    record = read_session(folder)
    assert record.log.fault is None
    assert record.log.torn is None
    assert not any(isinstance(event, OpaqueEvent) for event in record.events)
    with SessionLog.open(folder) as session:
        assert session.events[: len(record.events)] == record.events
        assert session.state.title == record.state.title == "make the test pass"


def test_each_version_is_raised_by_its_own_upgrade_to_the_newest():
    upgrades = (
        lambda record: {**record, "content": record["text"]},
        lambda record: {**record, "content": record["content"].upper()},
    )
    assert upgraded({"text": "hi"}, upgrades)["content"] == "HI"
    assert upgraded({"content": "hi", "schema_version": 2}, upgrades)["content"] == "HI"
    assert upgraded({"content": "hi", "schema_version": 3}, upgrades)["content"] == "hi"
    assert upgraded({"content": "hi", "schema_version": 9}, upgrades)["schema_version"] == 9
    assert len(UPGRADES) == EVENT_VERSION - 1


@pytest.mark.parametrize("version", ["2", None, -1, True, [1], 0])
def test_what_is_no_version_is_no_event(version):
    record = event_to_dict(sample(CLASSES[0])) | {"schema_version": version}
    with pytest.raises(ValueError, match="schema_version"):
        event_from_dict(record)
