"""Calls and members that a stream sends in pieces, in every way in which servers label these."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.llm.answers import OpenCalls, merge, whole_arguments
from agentcli.messages import ToolCall

LS, PWD = {"command": "ls"}, {"command": "pwd"}


def piece(
    name: str | None = None,
    arguments: object = None,
    *,
    call_id: str | None = None,
    index: int | None = None,
    **beside: object,
) -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    told = {"id": call_id, "index": index, "function": function, **beside}
    return {key: value for key, value in told.items() if value is not None}


def calls(*chunks: list[dict[str, Any]]) -> list[ToolCall]:
    collected = OpenCalls()
    for chunk in chunks:
        collected.take(chunk)
    return collected.finished()


def read(*found: ToolCall) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments or "{}")) for call in found]


A, B, C = json.dumps(LS), json.dumps(PWD), '{"command": "ls", "timeout": 5}'
BOTH = [("bash", LS), ("bash", PWD)]

LABELLED = {
    "OpenAI: an index each, ids at the start": [
        [piece("bash", "", call_id="a", index=0)],
        [piece(None, A[:5], index=0)],
        [piece(None, A[5:], index=0)],
        [piece("bash", "", call_id="b", index=1)],
        [piece(None, B, index=1)],
    ],
    "pieces of both calls take turns": [
        [piece("bash", "", call_id="a", index=0), piece("bash", "", call_id="b", index=1)],
        [piece(None, A[:5], index=0), piece(None, B[:5], index=1)],
        [piece(None, B[5:], index=1)],
        [piece(None, A[5:], index=0)],
    ],
    # https://github.com/ollama/ollama/issues/15457
    "Ollama: index 0 for each, whole": [
        [piece("bash", A, call_id="a", index=0)],
        [piece("bash", B, call_id="b", index=0)],
    ],
    # https://github.com/google-deepmind/amplio/pull/3
    "LiteLLM: index 0 for each, in pieces without ids": [
        [piece("bash", "", call_id="a", index=0)],
        [piece(None, A, index=0)],
        [piece("bash", "", call_id="b", index=0)],
        [piece(None, B[:4], index=0)],
        [piece(None, B[4:], index=0)],
    ],
    # https://github.com/oracle/langchain-oracle/issues/253
    "no index, ids at the start": [
        [piece("bash", "", call_id="a")],
        [piece(None, A[:5])],
        [piece(None, A[5:])],
        [piece("bash", "", call_id="b")],
        [piece(None, B)],
    ],
    # https://github.com/ollama/ollama/issues/7881
    "neither index nor id, whole": [[piece("bash", A)], [piece("bash", B)]],
    "neither index nor id, in one chunk": [[piece("bash", A), piece("bash", B)]],
    "Gemini: index 0 for each in one chunk, no ids": [
        [piece("bash", A, index=0, call_id=""), piece("bash", B, index=0, call_id="")]
    ],
    "arguments that are objects": [[piece("bash", LS, index=0)], [piece("bash", PWD, index=1)]],
    "the id in every piece": [
        [piece("bash", A[:5], call_id="a", index=0)],
        [piece("", A[5:], call_id="a", index=0)],
        [piece("bash", B[:5], call_id="b", index=1)],
        [piece("", B[5:], call_id="b", index=1)],
    ],
    "the id in every piece, no index": [
        [piece("bash", A[:5], call_id="a")],
        [piece(None, A[5:], call_id="a")],
        [piece("bash", B[:5], call_id="b")],
        [piece(None, B[5:], call_id="b")],
    ],
    "the head of a call twice": [
        [piece("bash", "", call_id="a", index=0)],
        [piece("bash", "", call_id="a", index=0)],
        [piece(None, A, index=0)],
        [piece("bash", B, call_id="b", index=1)],
    ],
    "the id only after the name": [
        [piece("bash", "", index=0)],
        [piece(None, A, call_id="a", index=0)],
        [piece("bash", B, call_id="b", index=1)],
    ],
    # https://github.com/vllm-project/vllm/issues/16340
    "an empty object before the real one": [
        [piece("bash", "{}", call_id="a", index=0)],
        [piece(None, A, index=0)],
        [piece("bash", B, call_id="b", index=1)],
    ],
    "arguments repeated whole at the end": [
        [piece("bash", A[:5], call_id="a", index=0)],
        [piece(None, A[5:], index=0)],
        [piece(None, A, index=0)],
        [piece("bash", B, call_id="b", index=1)],
    ],
    "a chunk without a function": [
        [piece("bash", A, call_id="a", index=0)],
        [{"index": 0}],
        [{"index": 1, "id": "b", "function": None}],
        [piece("bash", B, call_id="b", index=1)],
    ],
    "members of the function beside it": [
        [{"index": 0, "id": "a", "name": "bash", "arguments": A}],
        [{"index": 1, "id": "b", "name": "bash", "arguments": B}],
    ],
    "an id of its own for each piece": [
        [piece("bash", "", call_id="a", index=0)],
        [piece(None, A[:5], call_id="b", index=0)],
        [piece(None, A[5:], call_id="c", index=0)],
        [piece("bash", B, call_id="d", index=1)],
    ],
    "each piece with what came before": [
        [piece("bash", A[:5], call_id="a", index=0)],
        [piece("bash", A[:9], call_id="a", index=0)],
        [piece("bash", A, call_id="a", index=0)],
        [piece("bash", B, call_id="b", index=1)],
    ],
    "numbers as ids": [[piece("bash", A, call_id=1)], [piece("bash", B, call_id=2)]],
    "indices that begin at one": [
        [piece("bash", A, call_id="a", index=1)],
        [piece("bash", B, call_id="b", index=2)],
    ],
}


@pytest.mark.parametrize("chunks", LABELLED.values(), ids=LABELLED)
def test_two_calls_are_two_calls_however_they_are_labelled(chunks):
    assert read(*calls(*chunks)) == BOTH


def test_the_same_call_twice_is_two_calls_where_its_ids_say_so():
    chunks = [[piece("bash", A, call_id="a", index=0)], [piece("bash", A, call_id="b", index=0)]]
    assert read(*calls(*chunks)) == [("bash", LS), ("bash", LS)]


def test_calls_without_arguments_are_kept():
    chunks = [[piece("now", "", call_id="a", index=0)], [piece("here", None, call_id="b", index=1)]]
    assert read(*calls(*chunks)) == [("now", {}), ("here", {})]


def test_each_call_is_announced_once():
    collected = OpenCalls()
    started = [
        name
        for chunk in LABELLED["pieces of both calls take turns"]
        for name in collected.take(chunk)
    ]
    assert started == ["bash", "bash"]


names = st.sampled_from(["bash", "read", "grep"])
values = st.dictionaries(
    st.sampled_from(["path", "command", "n"]),
    st.text(max_size=8) | st.integers() | st.just({}),
    max_size=3,
)


@st.composite
def replies(draw):
    """Calls, and the chunks in which a server with some way of labelling sends them."""
    wanted = draw(st.lists(st.tuples(names, values), min_size=1, max_size=4))
    has_index, has_ids = draw(
        st.sampled_from([(True, True), (True, False), (False, True), (0, True)])
    )
    in_head = draw(st.booleans())
    chunks = []
    for number, (name, arguments) in enumerate(wanted):
        label: dict[str, Any] = {} if has_index is False else {"index": number if has_index else 0}
        text = json.dumps(arguments)
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
        parts = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        head = parts.pop(0) if in_head else ""
        call_id = f"call_{number}" if has_ids else None
        chunks.append([piece(name, head, call_id=call_id, **label)])
        chunks += [[piece(None, part, **label)] for part in parts]
    return wanted, chunks


@given(replies())
def test_any_cut_of_a_reply_gives_the_same_calls(case):
    wanted, chunks = case
    assert read(*calls(*chunks)) == wanted


@given(replies(), st.data())
def test_chunks_may_carry_several_pieces(case, data):
    wanted, chunks = case
    pieces = [part for chunk in chunks for part in chunk]
    if not all("index" in part for part in pieces) or {part["index"] for part in pieces} == {0}:
        return
    joined: list[list[dict[str, Any]]] = [[]]
    for part in pieces:
        if data.draw(st.booleans()):
            joined.append([])
        joined[-1].append(part)
    assert read(*calls(*joined)) == wanted


@given(st.lists(st.lists(st.dictionaries(st.sampled_from(["index", "id", "function", "x"]),
    st.none() | st.integers(0, 2) | st.text(max_size=3) | st.dictionaries(
        st.sampled_from(["name", "arguments"]), st.none() | st.text(max_size=5) | st.just({})))),
    max_size=4))  # fmt: skip
def test_nonsense_is_read_without_harm(chunks):
    for call in calls(*chunks):
        assert isinstance(call.name + call.id + call.arguments, str)


def test_what_a_call_has_beside_its_own_goes_with_it():
    signature = {"google": {"thought_signature": "abc"}}
    collected = OpenCalls()
    collected.take([piece("bash", A, call_id="a", index=0, extra_content=signature)])
    collected.take([piece("bash", B, call_id="b", index=1, type="function")])
    assert collected.beside() == [{"extra_content": signature}, {}]
    assert OpenCalls().beside() == []


def test_text_grows_and_what_is_whole_is_kept_once():
    into: dict[str, Any] = {}
    for text in ("Let ", "me ", "see."):
        merge(into, {"reasoning_content": text, "role": "assistant", "phase": None})
    merge(into, {"phase": "commentary", "model": "m"})
    merge(into, {"phase": "commentary", "model": ""})
    assert into == {
        "reasoning_content": "Let me see.",
        "role": "assistant",
        "phase": "commentary",
        "model": "m",
    }


def test_details_are_joined_by_index_and_end_with_a_seal():
    """As OpenRouter streams `reasoning_details`."""
    into: dict[str, Any] = {}
    for part in (
        {"type": "reasoning.text", "text": "Let ", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "text": "me.", "format": "anthropic-claude-v1", "index": 0},
        {"type": "reasoning.text", "signature": "s1", "index": 0},
        {"type": "reasoning.encrypted", "data": "x1", "id": "rs_1", "index": 1},
    ):
        merge(into, {"reasoning_details": [part]})
    first, second = into["reasoning_details"]
    assert (first["text"], first["signature"]) == ("Let me.", "s1")
    assert second == {"type": "reasoning.encrypted", "data": "x1", "id": "rs_1", "index": 1}


def test_blocks_without_an_index_are_apart_after_their_signature():
    """As LiteLLM streams `thinking_blocks`."""
    into: dict[str, Any] = {}
    for part in (
        {"type": "thinking", "thinking": "Let "},
        {"type": "thinking", "thinking": "me."},
        {"type": "thinking", "thinking": "", "signature": "s1"},
        {"type": "thinking", "thinking": "More."},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "redacted_thinking", "data": "y"},
    ):
        merge(into, {"thinking_blocks": [part]})
    assert into["thinking_blocks"] == [
        {"type": "thinking", "thinking": "Let me.", "signature": "s1"},
        {"type": "thinking", "thinking": "More."},
        {"type": "redacted_thinking", "data": "x"},
        {"type": "redacted_thinking", "data": "y"},
    ]


def test_members_that_nobody_knows_are_kept_in_their_form():
    into: dict[str, Any] = {}
    merge(into, {"vendor": {"a": [1], "note": "x"}, "flag": True, "n": 1})
    merge(into, {"vendor": {"a": [2], "note": "y"}, "flag": False, "n": 2})
    assert into == {"vendor": {"a": [1, 2], "note": "xy"}, "flag": False, "n": 2}


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=5), lambda inner: (
    st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)), st.text(max_size=5))  # fmt: skip
def test_merging_into_nothing_changes_no_more_than_null(value, name):
    source = {name: value}
    before = json.dumps(source)
    merged: dict[str, Any] = {}
    merge(merged, source)
    merge(merged, {})
    assert json.dumps(source) == before, "what arrived is not changed"


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([A], LS),
        ([A[:3], A[3:]], LS),
        (["{}", A], LS),
        (["{}", A[:3], A[3:]], LS),
        ([A, A], LS),
        ([A[:3], A[3:], A], LS),
        (["{}", "{}"], {}),
        ([" ", A, "\n"], LS),
    ],
)
def test_arguments_are_one_object(pieces, whole):
    assert json.loads(whole_arguments(pieces)) == whole


@pytest.mark.parametrize(
    "pieces", [[], [""], ['{"a": '], [A, B], ["[1]", "[1]"], ['"text"'], ["{}x"]]
)
def test_arguments_that_are_anything_else_stay_as_they_came(pieces):
    assert whole_arguments(pieces) == "".join(pieces)
