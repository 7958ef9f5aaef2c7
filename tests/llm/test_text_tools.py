"""Tool calls in text: what is read as a call, what goes back, what the person sees."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.events.progress import TextDelta, ToolCallStarted
from agentcli.llm.text_tools import CLOSE, OPEN, TextTools, parse, tool_call_text, with_calls
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

LS = '{"name": "bash", "arguments": {"command": "ls"}}'
BASH = ToolSchema("bash", "Run a command.", {"type": "object"})
names = st.from_regex(r"[a-z_]{1,20}", fullmatch=True)
arguments = st.dictionaries(st.text(max_size=8), st.text(max_size=30) | st.integers(), max_size=3)


def calls_in(text):
    return [(call.name, call.arguments) for call in parse(text)[1]]


@pytest.mark.parametrize(
    "text",
    [
        f"{OPEN}\n{LS}\n{CLOSE}",
        f"{OPEN}{LS}{CLOSE}",
        f"Let me look.\n{OPEN}\n```json\n{LS}\n```\n{CLOSE}\nDone.",
        f"{OPEN}\n{LS}",
        f"{OPEN}\n[{LS}]\n{CLOSE}",
        f"{OPEN}{LS} and so on {CLOSE}",
        OPEN + '{"name": "bash", "parameters": {"command": "ls"}}' + CLOSE,
    ],
)
def test_a_call_is_found_however_small_models_put_it(text):
    assert calls_in(text) == [("bash", '{"command": "ls"}')]


def test_several_calls_keep_their_order_and_the_text_around_them():
    text, calls = parse(f"First.\n{OPEN}{LS}{CLOSE}\nThen.\n{OPEN}\n{LS}\n{OPEN}\n{LS}\n{CLOSE}")
    assert text == "First.\n\nThen."
    assert [call.name for call in calls] == ["bash"] * 3


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"name": "bash", "arguments": {"command": "ls}', "bash"),
        ("bash ls", ""),
        ('{"tool": "bash"}', ""),
        ("[]", ""),
        ("[" * 100_000, ""),
    ],
)
@pytest.mark.parametrize("end", [CLOSE, "", f"{CLOSE} more"])
def test_a_broken_call_is_one_that_the_model_can_be_told_of(body, name, end):
    _, calls = parse(f"{OPEN}{body}{end}")
    assert [(call.name, call.arguments) for call in calls] == [(name, body)]


def test_lines_in_a_string_need_not_be_escaped():
    text = OPEN + '{"name": "write", "arguments": {"content": "a\nb"}}' + CLOSE
    assert [json.loads(raw) for _, raw in calls_in(text)] == [{"content": "a\nb"}]


def test_a_tag_inside_an_argument_or_between_backticks_is_no_call():
    inner = json.dumps({"name": "write", "arguments": {"content": f"{OPEN}x{CLOSE}"}})
    text, calls = parse(f"I use `{OPEN}` now.\n{OPEN}{inner}{CLOSE}")
    assert text == f"I use `{OPEN}` now."
    assert [json.loads(call.arguments) for call in calls] == [{"content": f"{OPEN}x{CLOSE}"}]


@given(st.lists(st.tuples(names, arguments), min_size=1, max_size=4), st.text(max_size=40))
def test_what_is_written_is_read_again(calls, said):
    said = said.replace("<", "").replace("`", "").strip()
    made = [ToolCall(str(n), name, json.dumps(given)) for n, (name, given) in enumerate(calls)]
    text, read = parse("\n".join([said, *map(tool_call_text, made)]))
    assert text == said
    assert [(c.name, json.loads(c.arguments)) for c in read] == calls


@given(
    st.lists(st.sampled_from([OPEN, CLOSE, LS, '{"name": "x"', "`", "```json", " a ", "[", "\n"]))
)
def test_any_text_is_read_to_its_end(pieces):
    text, calls = parse("".join(pieces))
    assert len(text) + len(calls) <= len("".join(pieces)) + 1


def reply(text, finish=FinishReason.STOP):
    return Reply(text, (), finish, Usage(), "m", "r")


def test_a_reply_that_was_cut_off_has_no_calls():
    assert with_calls(reply(f"{OPEN}{LS}{CLOSE}")).finish_reason is FinishReason.TOOL_CALLS
    cut = with_calls(reply(f"Now:\n{OPEN}{LS}", FinishReason.LENGTH))
    assert (cut.text, cut.tool_calls, cut.finish_reason) == ("Now:", (), FinishReason.LENGTH)
    assert with_calls(reply("  plain  ")).text == "  plain  "


class Underneath:
    """A provider that answers with a text, in pieces of `size` characters."""

    def __init__(self, text: str, size: int = 3) -> None:
        self.text, self.size = text, size
        self.requests: list[Request] = []

    def answer(self, request):
        self.requests.append(request)
        for at in range(0, len(self.text), self.size):
            yield TextDelta(self.text[at : at + self.size])
        yield reply(self.text)


@given(st.integers(1, 60))
def test_the_person_sees_the_text_and_the_names_of_calls(size):
    text = f"I use `{OPEN}` <b>.\n{OPEN}\n{LS}\n{CLOSE}\nSo <tool"
    items = list(TextTools(Underneath(text, size)).answer(Request([], (BASH,))))
    shown = "".join(item.text for item in items if isinstance(item, TextDelta))
    assert shown == f"I use `{OPEN}` <b>.\n\nSo <tool"
    assert [item.name for item in items if isinstance(item, ToolCallStarted)] == ["bash"]
    assert [call.name for call in items[-1].tool_calls] == ["bash"]


def test_the_conversation_underneath_has_no_tools_and_keeps_its_prefix():
    below = Underneath("fine")
    tools = TextTools(below)
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
