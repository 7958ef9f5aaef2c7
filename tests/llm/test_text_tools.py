"""The wrapper that reads a reply's text, and tools told in text: what goes back, what is kept."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.events.progress import Notice, ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.reply_text import find_calls
from agentcli.llm.text_tools import CLOSE, OPEN, TextTools, tool_call_text
from agentcli.messages import (
    FinishReason,
    Message,
    Reply,
    Request,
    Role,
    ToolCall,
    ToolSchema,
    Usage,
)
from agentcli.settings import DIALECTS

LS = '{"name": "bash", "arguments": {"command": "ls"}}'
BASH = ToolSchema("bash", "Run a command.", {"type": "object"})
names = st.from_regex(r"[a-z_]{1,20}", fullmatch=True)
arguments = st.dictionaries(st.text(max_size=8), st.text(max_size=30) | st.integers(), max_size=3)


class Underneath:
    """A provider that answers with a text, in pieces of `size` characters."""

    def __init__(self, text: str, size: int = 3, **parts: object) -> None:
        self.text, self.size, self.parts = text, size, parts
        self.requests: list[Request] = []

    def answer(self, request):
        self.requests.append(request)
        for at in range(0, len(self.text), self.size):
            yield TextDelta(self.text[at : at + self.size])
        whole = {"tool_calls": (), "finish_reason": FinishReason.STOP, **self.parts}
        yield Reply(self.text, usage=Usage(), model="m", response_id="r", **whole)

    def read_back(self, reply):
        return reply


def answered(text: str, tools=(BASH,), dialects=DIALECTS, **parts: object) -> Reply:
    below = Underneath(text, **parts)
    return list(TextTools(below, dialects).answer(Request([], tools)))[-1]


@given(st.lists(st.tuples(names, arguments), min_size=1, max_size=4), st.text(max_size=40))
def test_what_is_written_is_read_again(calls, said):
    said = "".join(c for c in said if c.isalnum())
    made = [ToolCall(str(n), name, json.dumps(given)) for n, (name, given) in enumerate(calls)]
    found = find_calls("\n".join([said, *map(tool_call_text, made)]), {}, DIALECTS)
    assert found.said == said
    assert [(c.name, json.loads(c.arguments)) for c in found.calls] == calls


def test_a_call_in_the_text_is_one_of_the_reply():
    reply = answered(f"Look:\n{OPEN}{LS}{CLOSE}\n{OPEN}{LS}{CLOSE}")
    assert (reply.text, reply.finish_reason) == ("Look:", FinishReason.TOOL_CALLS)
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        ("bash", '{"command": "ls"}')
    ] * 2
    assert len({call.id for call in reply.tool_calls}) == 2


def test_a_reply_that_was_cut_off_has_no_calls():
    cut = answered(f"Now:\n{OPEN}{LS}", finish_reason=FinishReason.LENGTH)
    assert (cut.text, cut.tool_calls, cut.finish_reason) == ("Now:", (), FinishReason.LENGTH)
    assert answered("  plain  ").text == "  plain  "


def test_text_beside_native_calls_or_without_tools_has_no_calls():
    native = ToolCall("c1", "bash", "{}")
    assert answered(f"{OPEN}{LS}{CLOSE}", tool_calls=(native,)).tool_calls == (native,)
    assert answered(f"{OPEN}{LS}{CLOSE}", tools=()).text == f"{OPEN}{LS}{CLOSE}"
    assert answered(f"{OPEN}{LS}{CLOSE}", dialects=()).tool_calls == ()


@pytest.mark.parametrize("name", ["bash<|channel|>commentary", "functions.bash<|channel|>json"])
def test_marks_of_channels_are_cut_off_a_name(name):
    reply = answered("", tool_calls=(ToolCall("c1", name, "{}"),))
    assert [call.name for call in reply.tool_calls] == ["bash"]


def test_calls_at_the_end_of_thinking_count_if_nothing_else_is_said():
    call = f"{OPEN}{LS}{CLOSE}"
    assert answered(f"<think>I look. {call}").tool_calls[0].name == "bash"
    assert answered("", reasoning=f"I look.\n{call}").tool_calls[0].name == "bash"
    assert answered(f"<think>I could {call} or not.</think>").tool_calls == ()
    assert answered(f"<think>\n{call}\n</think>\nFour.").tool_calls == ()


def test_thinking_in_the_text_is_reasoning():
    below = Underneath("<think>\nHm.\n</think>\n\nFour.")
    *items, reply = TextTools(below, ()).answer(Request([], (BASH,)))
    assert (reply.text, reply.reasoning) == ("Four.", "Hm.")
    assert "".join(i.text for i in items if isinstance(i, TextDelta)) == "Four."
    assert "".join(i.text for i in items if isinstance(i, ReasoningDelta)).strip() == "Hm."


def test_thinking_whose_first_mark_is_missing_is_shown_as_such_from_the_second_reply_on():
    tools = TextTools(Underneath("Hm.\n</think>\n\nFour."), ())
    for begun in (TextDelta, ReasoningDelta):
        items = list(tools.answer(Request([], ())))
        assert isinstance(items[0], begun)
        assert items[-1].text == "Four."


@given(st.integers(1, 60))
def test_the_person_sees_the_text_and_the_names_of_calls(size):
    text = f"I use `{OPEN}` <b>.\n{OPEN}\n{LS}\n{CLOSE}\nSo <tool"
    items = list(TextTools(Underneath(text, size), DIALECTS).answer(Request([], (BASH,))))
    shown = "".join(item.text for item in items if isinstance(item, TextDelta))
    assert "".join(shown.split()) == f"Iuse`{OPEN}`<b>.So<tool"
    assert [item.name for item in items if isinstance(item, ToolCallStarted)] == ["bash"]
    assert [call.name for call in items[-1].tool_calls] == ["bash"]


def test_the_person_is_told_once_that_calls_come_as_text():
    tools = TextTools(Underneath(f"{OPEN}{LS}{CLOSE}"), DIALECTS)
    items = [i for _ in range(2) for i in tools.answer(Request([], (BASH,)))]
    (told,) = (item.text for item in items if isinstance(item, Notice))
    assert "hermes" in told


def test_natively_told_tools_and_messages_go_out_as_they_are():
    below = Underneath(f"{OPEN}{LS}{CLOSE}")
    tools = TextTools(below, DIALECTS)
    request = Request([Message.system_message("Be good.")], (BASH,))
    list(tools.answer(request))
    list(tools.answer(request))
    assert below.requests == [request, request]


def test_the_conversation_underneath_has_no_tools_and_keeps_its_prefix():
    below = Underneath("fine")
    tools = TextTools(below, DIALECTS, tell_in_text=True)
    call = ToolCall("c1", "bash", '{"command": "ls"}')
    messages = [Message.system_message("Be good."), Message.user_message("look")]
    list(tools.answer(Request(messages, (BASH,))))
    messages += [
        Message.from_tool_calls([call], "Looking."),
        Message.tool_message("a.txt", "c1", image_urls=["data:x"]),
    ]
    list(tools.answer(Request(messages, (BASH,))))
    first, second = (request.messages for request in below.requests)
    assert all(request.tools == () for request in below.requests)
    assert all(old is new for old, new in zip(first, second, strict=False))
    assert '{"type":"object"}' in first[0].content
    assert [m.role for m in second] == [Role.SYSTEM, Role.USER, Role.ASSISTANT, Role.USER]
    assert second[2].content == f"Looking.\n{OPEN}\n{LS}\n{CLOSE}"
    assert second[3].content == '<tool_result name="bash">\na.txt\n</tool_result>'
    assert second[3].image_urls == ("data:x",)
