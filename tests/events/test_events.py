"""Events survive being written and read, those of the future included."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings

from agentcli.events import OpaqueEvent, event_from_dict, event_to_dict
from agentcli.events.actions import (
    CmdRunAction,
    CondensationAction,
    RewindAction,
    server_tool_name,
)
from agentcli.events.conversation import live
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


@pytest.mark.parametrize(
    ("own_id", "start", "end", "forgotten"),
    [
        (9, 2, 4, [2, 3, 4]),
        (9, -5, 1, [0, 1]),
        (3, 1, 7, [1, 2]),
        (-1, 1, 3, [1, 2, 3]),
        (0, 0, 3, []),
    ],
)
def test_a_condensation_takes_out_a_range_of_what_came_before_it(own_id, start, end, forgotten):
    """An id of -1 means that it is not recorded yet."""
    found = CondensationAction(id=own_id, forgotten_start_id=start, forgotten_end_id=end)
    assert list(found.forgotten_ids()) == forgotten


def test_a_conversation_without_what_the_user_went_back_from():
    log = [CmdRunAction(id=number, command=str(number)) for number in range(4)]
    files = RewindAction(id=4, to_event=1, conversation=False, tree="t")
    assert live([*log, files]) == [*log, files]
    back = RewindAction(id=4, to_event=1)
    assert live([*log, back, CmdRunAction(id=5, command="5")]) == [
        *log[:2],
        CmdRunAction(id=5, command="5"),
    ]


@pytest.mark.parametrize(("letters", "is_whole"), [(52, True), (53, False)])
def test_names_of_tools_of_servers_have_64_characters_at_most(letters, is_whole):
    name = server_tool_name("a.b c", "t" * letters)
    assert name.startswith("mcp__a_b_c__tttt")
    assert len(name) == 64
    assert (name == "mcp__a_b_c__" + "t" * letters) is is_whole
    assert name != server_tool_name("a.b c", "t" * letters + "u")
