"""Whatever was left out of a conversation can be had again, by its id or by its words."""

from __future__ import annotations

import json

import pytest

from agentcli.errors import ToolError
from agentcli.events.actions import (
    CmdRunAction,
    CondensationAction,
    CondensationRequestAction,
    FileEditAction,
    FileReadAction,
    RecallAction,
    RewindAction,
)
from agentcli.events.observations import (
    FileEditObservation,
    FileReadObservation,
    RecallObservation,
    SuccessObservation,
)
from agentcli.tools.past import RECALL
from tests.memory.long_histories import Log, session


@pytest.fixture
def log(ctx) -> Log:
    ctx.past = session("Fix the bug.")
    return ctx.past


def test_a_call_comes_with_its_result_and_a_result_alone(log, use):
    result = log.run("make test", "3 failed")
    log.run("ls", "a.py")
    assert use(RECALL, event=result.cause).output == "bash make test\n\nResult, event 3:\n3 failed"
    assert use(RECALL, event=result.id).output == "3 failed"
    assert use(RECALL, event=1).output == "Fix the bug."


def test_a_long_text_comes_in_parts_that_end_with_a_line_and_join_to_the_whole(log, use):
    text = "".join(f"line {number}\n" for number in range(9_000))
    event = log.run("seq", text)
    parts, start = [], 0
    while True:
        out = use(RECALL, event=event.id, start=start).output
        part, note, told = out.rpartition("\n[Characters ")
        if not note:
            parts.append(out)
            break
        parts.append(part)
        assert part.endswith("\n")
        assert len(out) < 20_200
        start = int(told.rpartition("start=")[2].rstrip("]"))
    assert "".join(parts) == text
    assert len(parts) > 3


def test_words_find_events_newest_first_and_never_what_was_recalled(log, use):
    log.run("cat a", "the Key is blue")
    log.run("cat b", "the key is RED")
    (action,) = log.step(RecallAction(recall_type="event", query="key is"))
    log.add(RecallObservation(cause=action.id, recall_type="event", content="the key is blue"))
    lines = use(RECALL, query="KEY is").output.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["event 5 (run)", "event 3 (run)"]
    assert use(RECALL, query="green").output == "No event of this session has all of: green"


def test_summaries_are_not_found_and_who_spoke_is_told(log, use):
    log.say("the key is green")
    log.add(CondensationAction(forgotten_event_ids=(1,), summary="the key is green, they said"))
    assert use(RECALL, query="key green").output == "event 2 (user): the key is green"


def test_an_excerpt_begins_with_a_whole_word(log, use):
    log.run("cat", f"{'walrus ' * 40}key")
    assert "(run): … walrus walrus" in use(RECALL, query="key").output


def test_what_was_read_is_marked_when_the_file_was_changed_since(log, use):
    def read():
        (action,) = log.step(FileReadAction(path="a.py"))
        return log.add(FileReadObservation(cause=action.id, content="1\told", path="a.py"))

    first = read()
    (action,) = log.step(FileEditAction(path="a.py", command="str_replace"))
    edit = log.add(FileEditObservation(cause=action.id, content="Edited", path="a.py", digest="d"))
    second = read()
    note = f"[as it was then; event {edit.id} changed the file since]"
    assert use(RECALL, event=first.id).output == f"{note}\n1\told"
    assert f"Result, event {first.id}: {note}\n1\told" in use(RECALL, event=first.cause).output
    assert use(RECALL, event=second.id).output == "1\told"


def test_there_are_not_endless_hits(log, use):
    for number in range(40):
        log.run("cat", f"key {number}")
    lines = use(RECALL, query="key").output.splitlines()
    assert len(lines) == 21
    assert lines[-1].startswith("… and older ones")


def test_what_was_gone_back_behind_is_not_found_by_its_words(log, use):
    log.run("cat a", "the key is blue")
    log.add(RewindAction(to_event=1))
    assert "No event" in use(RECALL, query="key").output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "needs an event, a query or compact"),
        ({"event": 99}, "There is no event 99: the session has 0 to 1"),
        ({"event": -1}, "There is no event -1"),
        ({"event": 1, "start": 5_000}, "Event 1 has 12 characters"),
        ({"query": "  "}, "no words"),
    ],
)
def test_what_can_not_be_recalled_is_explained(log, use, arguments, told):
    with pytest.raises(ToolError) as raised:
        use(RECALL, **arguments)
    assert told in raised.value.message


def test_asking_for_a_condensation_is_recorded_as_that(log, use):
    arguments = RECALL.arguments(compact="the parser")
    assert RECALL.action(arguments, "{}") == CondensationRequestAction(focus="the parser")
    result = use(RECALL, compact="the parser")
    assert isinstance(RECALL.observation(result), SuccessObservation)
    assert isinstance(RECALL.action(RECALL.arguments(event=3), "{}"), RecallAction)


def test_it_costs_no_more_than_ninety_odd_tokens_of_every_request():
    schema = RECALL.schema()
    told = json.dumps([schema.name, schema.description, schema.parameters])
    assert len(told) / 4 < 92


def test_a_call_still_without_result_is_shown_alone(log, use):
    (action,) = log.step(CmdRunAction(command="sleep 9"))
    assert use(RECALL, event=action.id).output == "bash sleep 9"


def test_of_a_long_event_the_parts_that_have_the_words_are_shown(log, use):
    lines = [f"line {number} of the output\n" for number in range(9_000)]
    lines[4_000] = "FAILED test_export: out of memory\n"
    lines[8_000] = "FAILED test_import\n"
    event = log.run("make test", "".join(lines))
    shown = use(RECALL, event=event.id, query="failed EXPORT").output
    assert "FAILED test_export: out of memory\n" in shown
    assert "FAILED test_import" not in shown
    assert len(shown) < 1_200
    begin = int(shown.partition("[from ")[2].partition("]")[0].replace(",", ""))
    assert "".join(lines)[begin:].startswith(shown.split("\n")[1])
    both = use(RECALL, event=event.id, query="failed").output
    assert both.index("test_export") < both.index("[from ", 9) < both.index("test_import")
    every = use(RECALL, event=event.id, query="output").output
    assert len(every) < 20_200
    assert "more places" in every
    with pytest.raises(ToolError, match="has none of: walrus"):
        use(RECALL, event=event.id, query="walrus")


def test_what_matches_in_one_endless_line_is_shown_with_its_surroundings(log, use):
    event = log.run("cat x", "a" * 50_000 + "needle" + "b" * 50_000)
    shown = use(RECALL, event=event.id, query="needle").output
    assert "a" * 200 + "needle" + "b" * 200 in shown
    assert len(shown) < 1_000
