"""Calls and thinking in a reply's text: what is one, what only looks like one, what is shown."""

# DeepSeek's marks have a wide bar.
# ruff: noqa: RUF001

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.reply_text import Found, Shown, find_calls, split_thought, whole_name
from agentcli.llm.text_calls import BARE, DIALECTS
from agentcli.settings import DIALECTS as NAMES

TOOLS = {
    "bash": {
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "timeout": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "background": {"type": "boolean"},
        },
        "required": ["command"],
    },
    "write": {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
    },
    "todo": {"type": "object", "properties": {"items": {"type": "array"}}},
}
LS = '{"command": "ls"}'
CALL = f'{{"name": "bash", "arguments": {LS}}}'
BLOCK = f"<tool_call>\n{CALL}\n</tool_call>"
M3 = "]<]minimax[>["
QUOTE = '<|"|>'
CLAUDE = "antml:"

RUNS_LS = {
    "hermes": [
        BLOCK,
        f"<tool_call>{CALL}",
        f"<tool_call>\n```json\n{CALL}\n```\n</tool_call>",
        f"<tool_call>\n[{CALL}]\n</tool_call>",
        f"<tool_call>{CALL} and so on </tool_call>",
        f"<tools>{CALL}</tools>",
        f"<|tool_call|>[{CALL}]",
        f"<TOOLCALL>[{CALL}]</TOOLCALL>",
        f"<TOOL_CALL>\n{CALL}\n</TOOL_CALL>",
        f"<tool_call>\n{CALL}}}\n</tool_call>",
        f'<|START_ACTION|>[{{"tool_name": "bash", "parameters": {LS}}}]<|END_ACTION|>',
        f"<|action_start|><|plugin|>{CALL}<|action_end|>",
        f"functools[{CALL}]",
        f'<tool_use>{{"name": "bash", "input": {LS}}}</tool_use>',
        '<tool_call>bash(command="ls")</tool_call>',
        f'<tool_call>{{"name": "bash", "parameters": {LS}}}</tool_call>',
    ],
    "qwen": [
        '<function name="bash">\n<parameter name="command">ls</parameter>\n</function>',
        f'<tool_call name="bash">\n{LS}\n</tool_call>',
        "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n"
        "</tool_call>",
        "<function=bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
        "<function=bash>\n<parameter=command>\nls",
        "<seed:tool_call><function=bash><parameter=command>ls</parameter></function>"
        "</seed:tool_call>",
        f"<function=bash>{LS}</function>",
    ],
    "glm": [
        "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
        "<tool_call>bash<arg_key>command</arg_key><arg_value>ls</arg_value>",
        "<longcat_tool_call>bash\n<longcat_arg_key>command</longcat_arg_key>\n"
        "<longcat_arg_value>ls</longcat_arg_value>\n</longcat_tool_call>",
    ],
    "invoke": [
        '<function_calls>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n'
        "</invoke>\n</function_calls>",
        f'<{CLAUDE}function_calls><{CLAUDE}invoke name="bash"><{CLAUDE}parameter name="command">ls'
        f"</{CLAUDE}parameter></{CLAUDE}invoke></{CLAUDE}function_calls>",
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="bash">\n<｜DSML｜parameter name="command" '
        'string="true">ls</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
        f'<｜DSML｜tool_calls><｜DSML｜invoke name="bash">{LS}</｜DSML｜invoke>',
        '<minimax:tool_call>\n<invoke name="bash">\n<parameter name="command">ls</parameter>\n'
        "</invoke>\n</minimax:tool_call>",
    ],
    "minimax": [
        f'{M3}<tool_call>\n{M3}<invoke name="bash">{M3}<command>ls{M3}</command>{M3}</invoke>\n'
        f"{M3}</tool_call>"
    ],
    "deepseek": [
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n"
        f"{LS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>bash<｜tool▁sep｜>{LS}<｜tool▁call▁end｜>"
        "<｜tool▁calls▁end｜>",
    ],
    "kimi": [
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0"
        f"<|tool_call_argument_begin|>{LS}<|tool_call_end|><|tool_calls_section_end|>",
        '<|open|>tools<|sep|><|open|>call tool="bash" index="1"<|sep|><|open|>argument '
        'key="command" type="string"<|sep|>ls<|close|>argument<|sep|><|close|>call<|sep|>'
        "<|close|>tools<|sep|>",
    ],
    "mistral": [
        f"[TOOL_CALLS][{CALL}]",
        f"[TOOL_CALLS] [{CALL}]",
        f"[TOOL_CALLS]bash[ARGS]{LS}",
        f"[TOOL_CALLS]bash[CALL_ID]abcdefghi[ARGS]{LS}",
        f"[TOOL_CALLS]bash{LS}",
    ],
    "llama": [
        f'<|python_tag|>{{"name": "bash", "parameters": {LS}}}<|eom_id|>',
        '<|python_tag|>bash.call(command="ls")',
        '<|python_start|>[bash(command="ls")]<|python_end|>',
    ],
    "gemma": [
        f"<|tool_call>call:bash{{command:{QUOTE}ls{QUOTE}}}<tool_call|>",
        "<start_function_call>call:bash{command:<escape>ls<escape>}<end_function_call>",
        'I look.\n```tool_code\nprint(default_api.bash(command="ls"))\n```',
        f"<tool_code>{CALL}</tool_code>",
    ],
    "lfm": ['<|tool_call_start|>[bash(command="ls")]<|tool_call_end|>'],
    "gpt-oss": [
        f"<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{LS}<|call|>",
        f"<|start|>assistant to=functions.bash<|channel|>commentary json<|message|>{LS}<|call|>",
    ],
    "json": [
        CALL,
        f'{{"type": "function", "name": "bash", "parameters": {LS}}}',
        f'[{{"id": "c1", "type": "function", "function": {{"name": "bash", "arguments": {LS}}}}}]',
        f'{{"tool_calls": [{{"function": {{"name": "bash", "arguments": {LS}}}}}]}}',
        f'{{"recipient_name": "functions.bash", "parameters": {LS}}}',
        f'{{"action": "bash", "action_input": {LS}}}',
        '[bash(command="ls")]',
        'bash(command="ls")',
        f"```json\n{CALL}\n```",
        f"```\n{BLOCK}\n```",
        '```tool_code\nbash(command="ls")\n```',
        f"call:bash{{command:{QUOTE}ls{QUOTE}}}<tool_call|>",
    ],
}
"""By dialect, texts that each stand for one call."""
FORMS = [(name, text) for name, texts in RUNS_LS.items() for text in texts]
MARKED = [(name, text) for name, text in FORMS if name != "json" and "```tool_code" not in text]
UNCLOSED = (f"<tool_call>{CALL}", "</arg_value>", "\nls", f"[{CALL}]")
CLOSED = [(name, text) for name, text in MARKED if not text.endswith(UNCLOSED)]


def read(text: str) -> Found:
    return find_calls(text, TOOLS, NAMES)


def calls_in(text: str) -> list[tuple[str, object]]:
    return [(call.name, json.loads(call.arguments)) for call in read(text).calls]


def shown(text: str, size: int, found: Found | None = None, **settings: str) -> list[object]:
    """Return what a person is shown of `text`, streamed in pieces of `size` characters."""
    on_screen = Shown(TOOLS, NAMES, **settings)
    items = [i for at in range(0, len(text), size) for i in on_screen.take(text[at : at + size])]
    return [*items, *on_screen.rest(found or read(split_thought(text).rest))]


def words(items: list[object], kind: type = TextDelta) -> str:
    return "".join(item.text for item in items if isinstance(item, kind))


def test_a_setting_has_the_name_of_each_dialect():
    assert set(NAMES) == {*(dialect.name for dialect in DIALECTS), BARE}
    assert set(RUNS_LS) == set(NAMES)


@pytest.mark.parametrize(("dialect", "text"), FORMS)
def test_a_call_in_each_dialect_is_read(dialect, text):
    found = read(text)
    assert calls_in(text) == [("bash", {"command": "ls"})]
    assert (found.dialect, found.said) == (dialect, "I look." if "I look" in text else "")


@pytest.mark.parametrize(("dialect", "text"), CLOSED)
def test_calls_stand_beside_each_other_and_between_words(dialect, text):
    found = read(f"I look at it.\n\n{text}\n{text}\n\nIt is done.")
    assert found.said == "I look at it.\n\nIt is done."
    assert [call.name for call in found.calls] == ["bash", "bash"]


@pytest.mark.parametrize(("dialect", "text"), MARKED)
def test_only_the_dialects_asked_for_are_read(dialect, text):
    assert find_calls(text, TOOLS, {dialect}).calls
    assert not find_calls(text, TOOLS, ()).calls


@pytest.mark.parametrize(("dialect", "text"), MARKED)
@pytest.mark.parametrize(
    "quotation",
    [
        "Models write calls like this:\n\n```\n{}\n```\n\nThe parser reads them.",
        "Models write calls like this:\n\n~~~xml\n{}\n~~~",
        "Models write `{}` here.",
        "Models write\n> {}\nand the like.",
        "Models write:\n- {}, or else nothing.",
        "Models write {} in this project.",
        "Models write:\n\n    {}\n\nThe parser reads them.",
    ],
)
def test_a_quoted_call_is_none(dialect, text, quotation):
    text = text.replace("\n", "" if "`{" in quotation or "write" in quotation else "\n")
    answer = quotation.format(text.replace("`", ""))
    assert read(answer) == Found(answer, [])
    assert words(shown(answer, 7)) == answer


@pytest.mark.parametrize(
    "answer",
    [
        f"Send this:\n```json\n{CALL}\n```\nto it.",
        f"This is how:\n```json\n{CALL}\n```",
        "[TOOL_CALLS] is Mistral's mark.",
        "<tool_call> is how a call begins, and </tool_call> how it ends.",
        "The mark <｜tool▁calls▁begin｜> comes before calls.",
        '{"name": "demo", "version": 1}',
        '{"name": "demo", "parameters": {"a": 1}}',
        "[1, 2]",
        "[a](b)",
        "print(1)",
        "[x(1)]",
        '```python\nbash(command="ls")\n```',
        "```bash\nls\n```",
        "The model writes <think>a</think>\nfirst.",
        "It ends with `</think>`\nand so on.",
        "  plain  \n",
    ],
)
@pytest.mark.parametrize("size", [1, 5, 1000])
def test_an_answer_that_looks_like_a_call_passes_unchanged(answer, size):
    assert split_thought(answer) == ("", answer, "")
    assert read(answer) == Found(answer, [])
    assert words(shown(answer, size)) == answer


PIECES = [
    *("```", "```json", "~~~", "\n", "\n\n", "`", "<tool", "<b>", "</div>", "<|x|>", "<", "[", "{"),
    *('{"a": 1}', '{"name": "bash"}', "a < b ", "#include <vector>", "- ", "> ", "1. ", "[x](y)"),
    *("bash(", "The end.", " words ", "<thin", "[TOOL", "call:", '"name": "bash"', "é", "]"),
]


@given(st.lists(st.sampled_from(PIECES)).map("".join), st.integers(1, 30))
def test_any_answer_without_marks_passes_unchanged_and_is_shown_whole(answer, size):
    assert split_thought(answer) == ("", answer, "")
    assert read(answer) == Found(answer, [])
    assert words(shown(answer, size)) == answer


@given(
    st.lists(
        st.sampled_from([*PIECES, *(b for d in DIALECTS for b in d.begins), CALL, "</tool_call>"])
    ).map("".join),
    st.integers(1, 30),
)
def test_any_text_is_read_to_its_end(text, size):
    found = read(text)
    assert len(found.said) <= len(text)
    assert len(words(shown(text, size, found))) <= len(text) + 2


@pytest.mark.parametrize(("dialect", "text"), FORMS)
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_a_person_sees_the_words_and_the_names_of_calls(dialect, text, size):
    said = "" if dialect == "json" else "I look at it.\n\n"
    items = shown(said + text, size)
    assert words(items).strip() in (said.strip(), f"{said.strip()}\n\nI look.".strip()) or (
        text.startswith("bash(")
    )
    assert ToolCallStarted("bash") in items


def test_values_are_what_the_schema_says():
    text = (
        "<function=bash>\n<parameter=command>\n5\n</parameter>\n<parameter=timeout>\n5\n"
        "</parameter>\n<parameter=background>\nTrue\n</parameter>\n</function>\n"
        '<function=todo>\n<parameter=items>\n[{"a": 1}]\n</parameter>\n</function>'
    )
    assert calls_in(text) == [
        ("bash", {"command": "5", "timeout": 5, "background": True}),
        ("todo", {"items": [{"a": 1}]}),
    ]
    nested = "".join(f"{M3}<item>{M3}<a>{n}{M3}</a>{M3}</item>" for n in (1, 2))
    text = f'{M3}<invoke name="todo">{M3}<items>{nested}{M3}</items>{M3}</invoke>'
    assert calls_in(text) == [("todo", {"items": [{"a": 1}, {"a": 2}]})]
    text = f"<|tool_call>call:todo{{items:[{{a:{QUOTE}x}}{QUOTE},b:true}}]}}<tool_call|>"
    assert calls_in(text) == [("todo", {"items": [{"a": "x}", "b": True}]})]


def test_arguments_may_hold_marks_and_lines():
    content = "Use <tool_call> and </parameter>,\n</function> or\n  `[TOOL_CALLS]`."
    values = {"path": "a.md", "content": content}
    tagged = "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())
    for text in (
        f"<tool_call>\n<function=write>\n{tagged}</function>\n</tool_call>",
        f"<tool_call>{json.dumps({'name': 'write', 'arguments': values})}</tool_call>",
        f"[TOOL_CALLS]write[ARGS]{json.dumps(values)}",
    ):
        assert calls_in(text) == [("write", values)]
    raw = '{"name": "write", "arguments": {"content": "a\nb"}}'
    assert calls_in(f"<tool_call>{raw}</tool_call>") == [("write", {"content": "a\nb"})]


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"name": "bash", "arguments": {"command": "ls}', "bash"),
        ("bash ls", ""),
        ('{"command": "bash"}', ""),
        ("[]", ""),
        ("[" * 100_000, ""),
    ],
)
@pytest.mark.parametrize("end", ["</tool_call>", "", "</tool_call> More."])
def test_a_broken_call_is_one_that_the_model_can_be_told_of(body, name, end):
    found = read(f"<tool_call>{body}{end}")
    assert [(call.name, call.arguments) for call in found.calls] == [(name, body)]


@pytest.mark.parametrize(
    "said",
    [
        "bash",
        "Bash",
        " bash ",
        "functions.bash",
        "default_api:bash",
        "bash()",
        "bash<|channel|>json",
    ],
)
def test_a_tool_is_known_by_the_name_that_a_model_gives_it(said):
    assert whole_name(said, TOOLS) == "bash"


@pytest.mark.parametrize("said", ["mcp__bash", "write.bash", "", "shell"])
def test_a_name_that_may_mean_something_else_is_left_as_it_is(said):
    assert whole_name(said, TOOLS) == said


def test_a_call_of_no_tool_is_one_that_the_model_can_be_told_of():
    assert calls_in('{"name": "search", "arguments": {"q": "x"}}') == [("search", {"q": "x"})]
    assert calls_in("<function=search>\n</function>") == [("search", {})]


@pytest.mark.parametrize(
    ("text", "thinking", "rest"),
    [
        ("<think>\nHm.\n</think>\n\nFour.", "Hm.", "Four."),
        ("<think>Hm.</think>Four.", "Hm.", "Four."),
        ("Hm, four?\n</think>\n\nFour.", "Hm, four?", "Four."),
        ("Hm.</think>\nFour.", "Hm.", "Four."),
        ("[THINK]Hm.[/THINK]Four.", "Hm.", "Four."),
        ("<mm:think>Hm.</mm:think>Four.", "Hm.", "Four."),
        ("<|channel>thought\nHm.<channel|>Four.", "Hm.", "Four."),
        ("<think></think>\n\nFour.", "", "Four."),
        ("<think>Hm.</think>\n<think>Well.</think>Four.", "Hm.\n\nWell.", "Four."),
        ("<think>Hm.", "Hm.", ""),
    ],
)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_thinking_at_the_beginning_is_no_part_of_the_answer(text, thinking, rest, size):
    assert split_thought(text)[:2] == (thinking, rest)
    known = {} if text.startswith(("<", "[")) else {"thought_end": "</think>"}
    items = shown(text, size, **known)
    assert words(items) == rest
    assert "".join(words(items, ReasoningDelta).split()) == "".join(thinking.split())


def test_marks_of_channels_are_not_said():
    text = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>"
        "Four.<|return|>"
    )
    thought = split_thought(text)
    assert (thought.thinking, read(thought.rest).said) == ("Hm.", "Four.")
    assert words(shown(text, 4)) == "Four."


def test_an_answer_is_shown_although_thinking_was_expected():
    assert words(shown("Four.", 2, thought_end="</think>")) == "Four."
