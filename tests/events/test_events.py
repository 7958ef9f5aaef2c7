"""Events survive being written and read, those of the future included."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from agentcli.events import OpaqueEvent, event_from_dict, event_to_dict
from agentcli.events.actions import CmdRunAction
from agentcli.events.observations import CmdOutputObservation, HookObservation
from tests.strategies import EVENT_CLASSES, events


@settings(max_examples=300)
@given(events)
def test_every_event_reads_back_as_it_was_written(event):
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


@pytest.mark.parametrize("cls", EVENT_CLASSES, ids=lambda cls: cls.__name__)
def test_every_class_is_immutable_and_closed(cls):
    assert cls.model_config["frozen"]
    assert cls.model_config["extra"] == "forbid"


def test_an_action_has_args_and_an_observation_content_and_extras():
    action = event_to_dict(CmdRunAction(id=3, command="ls"))
    assert (action["action"], action["args"], action["message"]) == (
        "run",
        {"command": "ls"},
        "$ ls",
    )
    observation = event_to_dict(CmdOutputObservation(id=4, content="a", command="ls", cause=3))
    assert (observation["observation"], observation["content"]) == ("run", "a")
    assert observation["extras"] == {"command": "ls"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\u2028"])
def test_of_a_hook_people_are_told_the_first_line(end):
    said = HookObservation(event="Stop", command="x", exit_code=1, content=f" a{end}b\n")
    assert said.message == "hook Stop exit 1: a"
    assert said.model_copy(update={"content": end}).message == "hook Stop exit 1"


@pytest.mark.parametrize(
    "record",
    [
        {"id": 7, "timestamp": "2031-01-01T00:00:00Z", "action": "teleport", "args": {"to": "x"}},
        {
            "id": 7,
            "timestamp": "2031-01-01T00:00:00Z",
            "action": "run",
            "args": {"command": "ls", "planet": "Mars"},
            "schema_version": 99,
        },
    ],
    ids=["unknown type", "newer version"],
)
def test_what_a_newer_version_wrote_is_kept_as_it_is(record):
    event = event_from_dict(record)
    assert isinstance(event, OpaqueEvent)
    assert event_to_dict(event) == record


@pytest.mark.parametrize(
    "record", [{}, {"id": "x"}, {"id": 1, "timestamp": "soon", "action": "run"}]
)
def test_what_is_no_event_is_refused(record):
    with pytest.raises(ValueError, match="event"):
        event_from_dict(record)
