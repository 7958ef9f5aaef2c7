"""How families of models write tool calls and thinking into their text, and reading such calls.

A server whose chat template or parser does not know its model passes such text on as the answer.
The forms are those of the models' chat templates, as read by the parsers of vLLM
(vllm/tool_parsers), SGLang (srt/function_call) and Ollama (model/parsers).
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentcli.events.texts import json_value, value_at
from agentcli.llm.wire_protocol import tool_call
from agentcli.messages import ToolCall

# DeepSeek's marks have a wide bar.
# ruff: noqa: RUF001


_NAME = r"""\s*["']?(?:functions\.)?(?P<name>[\w.-]+)["']?(?::\d+)?\s*"""
_VALUE = r"\n?(?P<value>.*?)\n?"
_M3 = re.escape("]<]minimax[>[")
_CAT = "(?:longcat_)?"
_INVOKE_TAGS = ("invoke name=", "function_calls>")
_PREFIX = "(?:antml:|｜DSML｜)?"
BARE = "json"
"""The dialect without marks: a reply that is nothing but calls, in JSON or Python."""
PLAIN_MARKS = frozenset(
    (
        *("<tools>", "<tool_calls>", "<function_call>", "<function_calls>", "<invoke name="),
        *("<tool_code>", "```tool_code", "<|start|>assistant", "<|channel|>commentary"),
        *("<tool_use>", "functools[", "<function name="),
    )
)
"""Beginnings that also stand in text without calls, so what follows need not be a broken call."""
THOUGHTS: Mapping[str, str] = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "[THINK]": "[/THINK]",
    "<mm:think>": "</mm:think>",
    "<seed:think>": "</seed:think>",
    "◁think▷": "◁/think▷",
    "<|channel>thought": "<channel|>",
    "<|open|>think<|sep|>": "<|close|>think<|sep|>",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel|>analysis<|message|>": "<|end|>",
}
"""What thinking in the text begins and ends with."""
Tools = Mapping[str, Mapping[str, Any]]
"""By name of a tool, the JSON Schema of its arguments."""
NAMES = ("name", "function", "tool", "tool_name", "function_name", "recipient_name", "action")
ARGUMENTS = (
    *("arguments", "parameters", "args", "input", "tool_input", "action_input", "function_args"),
)
LISTS = ("tool_calls", "tool_uses")
"""Members that hold the calls of a reply, where it has nothing else."""
_MEMBERS = frozenset((*NAMES, *ARGUMENTS, "type", "id"))
"""What an object without marks around it may have, to be a call."""
_JUNK = r"(?:[^<>{\n]{0,80}(?=\s*</))?"
"""What small models write between a call and its last mark."""
_GAP = re.compile(r"[\s,;]*")
_FENCE = re.compile(r"\s*(?:```\w*\s*)?")
_CLOSED_FENCE = re.compile(r"(?:\s*```)?")
_LOOSE = re.compile(
    r"""\s*(?:(?:<\|"\|>|<escape>)(?P<text>.*?)(?:<\|"\|>|<escape>)"""
    r"""|(?P<json>"(?:\\.|[^"\\])*"|[{}\[\]:,])|(?P<word>[^{}\[\]:,"<\s][^{}\[\]:,"<]*))""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How calls are written. A block of them starts with one of `begins`. In it, `head` has a
    tool's name, and the arguments follow: JSON, or tagged as `argument` says. Where there is no
    head, JSON or Python names the tool as well. `marks` stand around calls and say nothing."""

    name: str
    begins: Sequence[str]
    marks: str
    head: str = ""
    argument: str = ""


DIALECTS: Sequence[Dialect] = (
    Dialect(
        "hermes",
        (
            *("<tool_call>", "<|tool_call|>", "<TOOLCALL>"),
            *("<tools>", "<tool_calls>", "<function_call>", "<function_calls>", "<TOOL_CALL>"),
            *("<tool_use>", "<|START_ACTION|>", "<|action_start|>", "<|tools_prefix|>"),
            "functools[",
        ),
        r"<\|/?tool_call\|>|</?(?:tool_calls?|TOOL_?CALL|tool_use|tools|function_calls?)>"
        r"|<\|(?:(?:START|END)_ACTION|action_(?:start|end)|plugin|tools_(?:prefix|suffix))\|>"
        r"|functools(?=\[)",
    ),
    Dialect(
        "qwen",
        ("<tool_call>", "<function=", "<function name=", "<tool_call name=", "<seed:tool_call>"),
        r"</?(?:seed:)?tool_call>|</function(?:_invocation)?>",
        rf"<(?:function|tool_call)(?:=| name=){_NAME}>",
        rf"<parameter(?:=| name=)[\"\s]*(?P<key>[^<>]+?)[\"\s]*>{_VALUE}"
        r"(?:</parameter>(?=\s*(?:</?function|<parameter[= ]|</?tool_call>|\Z))"
        r"|(?=\s*(?:<parameter[= ]|</function>\s*(?:</tool_call>|<function=|\Z)))|\Z)",
    ),
    Dialect(
        "glm",
        ("<tool_call>", "<longcat_tool_call>"),
        rf"</?{_CAT}tool_call>",
        rf"{_NAME}(?=<{_CAT}arg_key>|</{_CAT}tool_call>)",
        rf"<{_CAT}arg_key>\s*(?P<key>.*?)\s*</{_CAT}arg_key>\s*<{_CAT}arg_value>{_VALUE}"
        rf"(?:</{_CAT}arg_value>(?=\s*(?:<{_CAT}arg_key>|</?{_CAT}tool_call>|\Z))|\Z)",
    ),
    Dialect(
        "invoke",
        (
            *(f"<{space}{tag}" for space in ("", "antml:") for tag in _INVOKE_TAGS),
            *("<｜DSML｜", "<minimax:tool_call>"),
        ),
        rf"</?(?:{_PREFIX}(?:function_calls|tool_calls)|minimax:tool_call)>|</{_PREFIX}invoke>",
        rf"<{_PREFIX}invoke name={_NAME}>",
        rf'<{_PREFIX}parameter name="(?P<key>[^"]+)"(?:\s+string="(?P<kind>\w+)")?\s*>{_VALUE}'
        rf"(?:</{_PREFIX}parameter>(?=\s*(?:<{_PREFIX}parameter|</{_PREFIX}invoke>|\Z))|\Z)",
    ),
    Dialect(
        "minimax",
        ("]<]minimax[>[",),
        rf"{_M3}\s*(?:</?tool_call>|</invoke>)",
        rf"{_M3}\s*<invoke name={_NAME}>",
        rf"{_M3}\s*<(?P<key>[\w.-]+)>(?P<value>.*?){_M3}\s*</(?P=key)>",
    ),
    Dialect(
        "deepseek",
        ("<｜tool▁call", "<｜tool_call"),
        r"<｜tool[▁_]calls?[▁_](?:begin|end)｜>|<｜end▁of▁sentence｜>",
        rf"(?:function<｜tool[▁_]sep｜>)?{_NAME}(?:<｜tool[▁_]sep｜>|(?=```))",
    ),
    Dialect(
        "kimi",
        ("<|tool_call_begin|>", "<|tool_calls_section_begin|>", "<|tool_call_section_begin|>"),
        r"<\|tool_calls?_(?:section_)?(?:begin|end)\|>",
        rf"{_NAME}(?:<\|tool_call_argument_begin\|>|(?=\{{))",
    ),
    Dialect(
        "kimi",
        ("<|open|>tools<|sep|>", "<|open|>call "),
        r"<\|(?:open|close)\|>tools<\|sep\|>|<\|close\|>(?:call|message|response)<\|sep\|>",
        rf"<\|open\|>call\s+tool={_NAME}[^<]*<\|sep\|>",
        r'<\|open\|>argument\s+key="(?P<key>[^"]+)"(?:\s+type="(?P<kind>\w+)")?[^<]*<\|sep\|>'
        r"(?P<value>.*?)<\|close\|>argument<\|sep\|>",
    ),
    Dialect(
        "mistral",
        ("[TOOL_CALLS]",),
        r"\[/?TOOL_CALLS\]",
        rf"{_NAME}(?:\[CALL_ID\]\s*\w+\s*)?(?:\[ARGS\]|(?=\{{))",
    ),
    Dialect(
        "llama",
        ("<|python_tag|>", "<|python_start|>"),
        r"<\|python_(?:tag|start|end)\|>|<\|eo[mt]_id\|>",
    ),
    Dialect(
        "gemma",
        ("<|tool_call>", "<start_function_call>"),
        r"<\|?tool_call\|?>|<(?:start|end)_function_call>|<\|tool_response>",
        rf"(?:call:)?{_NAME}(?=\{{)",
    ),
    Dialect("gemma", ("```tool_code", "<tool_code>"), r"```tool_code|</?tool_code>|```"),
    Dialect("lfm", ("<|tool_call_start|>",), r"<\|tool_call_(?:start|end)\|>"),
    Dialect(
        "gpt-oss",
        ("<|start|>assistant", "<|channel|>commentary", "<|channel|>analysis to="),
        r"<\|(?:call|end)\|>|<\|start\|>assistant(?! to=)",
        rf"(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)?\s+to={_NAME}(?:<\|channel\|>\w+\s*)?"
        r"(?:(?:<\|constrain\|>)?\s*json\s*)?<\|message\|>",
    ),
)


def read_block(dialect: Dialect, text: str, start: int, tools: Tools) -> tuple[list[ToolCall], int]:
    """Return the calls of the block at `start`, without ids, and where the text goes on; none if
    the dialect can't read one there. A call with invalid JSON has that text as its arguments."""
    calls: list[ToolCall] = []
    end = position = start
    opening = re.compile(rf"(?:\s*(?:{dialect.marks}))*", re.DOTALL)
    closing = re.compile(rf"(?:{_JUNK}(?:\s*(?:{dialect.marks}))+)?", re.DOTALL)
    while True:
        position = _after(opening, text, position)
        found, behind = _call_at(dialect, text, _after(_GAP, text, position), tools)
        if not found:
            return calls, end
        calls += found
        end = position = _after(closing, text, behind)


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _call_at(
    dialect: Dialect, text: str, position: int, tools: Tools
) -> tuple[list[ToolCall], int]:
    """Return the calls at `position`, one or a list of them, and their end."""
    if dialect.head and (head := re.compile(dialect.head).match(text, position)):
        name = head["name"]
        arguments, end = _arguments(dialect, text, head.end(), tools.get(name, {}))
        return [tool_call("", name, arguments)], end
    if text[position : position + 1] in ("{", "[", "`"):
        calls, end = json_calls(text, position)
        if calls:
            return calls, end
    if dialect.head:
        return [], position
    whole = text[position : _closing(dialect, text, position)]
    for code in (whole, whole.partition("\n")[0]):
        if calls := python_calls(code, tools):
            return calls, position + len(code)
    return [], position


def _closing(dialect: Dialect, text: str, position: int) -> int:
    """Return where the next mark of the dialect is, or else the end of the text."""
    closing = re.compile(dialect.marks).search(text, position)
    return closing.start() if closing else len(text)


def _arguments(
    dialect: Dialect, text: str, position: int, schema: Mapping[str, Any]
) -> tuple[dict[str, Any] | str, int]:
    """Return a call's arguments and their end; text that is not JSON as it is."""
    begin = _after(_FENCE, text, position)
    if dialect.argument and not text.startswith("{", begin):
        return _tagged(dialect.argument, text, position, schema)
    if found := value_at(text, begin):
        value, end = found
        arguments = value if isinstance(value, dict) else text[begin:end]
        return arguments, _after(_CLOSED_FENCE, text, end)
    if dialect.name == "gemma" and text.startswith("{", begin) and (loose := _loose(text, begin)):
        return loose
    end = _closing(dialect, text, begin)
    return text[begin:end].strip(), end


def _tagged(
    argument: str, text: str, position: int, schema: Mapping[str, Any]
) -> tuple[dict[str, Any], int]:
    """Return the arguments that follow each other from `position` on, each in its own tags."""
    pattern = re.compile(r"\s*" + argument, re.DOTALL)
    known = schema.get("properties", {})
    values: dict[str, Any] = {}
    while found := pattern.match(text, position):
        parts = found.groupdict()
        key, value, kind = parts["key"], parts["value"], parts.get("kind")
        is_text = kind in ("true", "string") if kind else _is_text(known.get(key, {}))
        values[key] = _nested(pattern, value) or (value if is_text else _parsed(value))
        position = found.end()
    return values, position


def _nested(pattern: re.Pattern[str], value: str) -> Any:
    """Return a value that consists of tagged members, or of items of a list; None if it does
    not."""
    members = list(pattern.finditer(value)) if pattern.match(value) else []
    if not members:
        return None
    read = [(m["key"], _nested(pattern, m["value"]) or _parsed(m["value"])) for m in members]
    return [item for _, item in read] if {key for key, _ in read} == {"item"} else dict(read)


def _is_text(schema: Mapping[str, Any]) -> bool:
    """Whether a value with this schema may be any text."""
    kinds = schema.get("type", [])
    options = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    if options:
        return any(map(_is_text, options))
    return "string" in kinds or (not kinds and not {"$ref", "enum", "const"} & set(schema))


def _parsed(value: str) -> Any:
    """Return the JSON value that is written, or the text if it is none."""
    words = {"True": True, "False": False, "None": None}
    text = value.strip()
    return words[text] if text in words else json_value(text, value)


def _loose(text: str, position: int) -> tuple[dict[str, Any], int] | None:
    """Return the object at `position`, whose names and words need no quotes and whose texts may
    stand between marks, and its end; None if it has none."""
    written: list[str] = []
    depth = 0
    while part := _LOOSE.match(text, position):
        position = part.end()
        if part["text"] is not None:
            written.append(json.dumps(part["text"]))
        elif part["json"]:
            written.append(part["json"])
            depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(part["json"], 0)
        else:
            word = part["word"].strip()
            number = re.fullmatch(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", word)
            is_value = word in ("true", "false", "null") or number
            written.append(word if is_value else json.dumps(word))
        if not depth:
            break
    whole = value_at("".join(written), 0)
    return whole and (whole[0], position)


def bare_calls(text: str, tools: Tools) -> list[ToolCall]:
    """Return the calls that the whole text consists of, in JSON or Python without marks."""
    text = text.strip()
    if text.startswith(("[", "{")) and (values := _json_values(text)):
        return _all_or_none(_bare_call(value, tools) for value in values)
    if text.startswith("call:"):
        gemma = next(dialect for dialect in DIALECTS if dialect.name == "gemma")
        calls, end = read_block(gemma, text, 0, tools)
        return calls if end == len(text) else []
    return python_calls(text, tools) if re.match(r"\[?\s*(?:\w+\.)*\w+\(", text) else []


def _json_values(text: str) -> list[Any]:
    """Return the JSON values that `text` consists of, those of a list one by one."""
    values: list[Any] = []
    position = 0
    while position < len(text):
        found = value_at(text, position)
        if found is None:
            return []
        value, end = found
        if isinstance(value, dict) and len(value) == 1:
            value = next((value[name] for name in LISTS if name in value), value)
        values += value if isinstance(value, list) else [value]
        position = _after(_GAP, text, end)
    return values


def _bare_call(value: Any, tools: Tools) -> ToolCall | None:
    """Return the call that an object without marks is: it has nothing but the members of one, and
    names a tool or has `arguments`."""
    call = named_call(value)
    if call is None or isinstance(value.get("function"), dict):
        return call
    is_known = call.name in tools or isinstance(value.get("arguments"), dict)
    return call if is_known and len(value) > 1 and _MEMBERS.issuperset(value) else None


def json_calls(text: str, position: int) -> tuple[list[ToolCall], int]:
    """Return the calls that the JSON value at `position` stands for, one or a list of them, and
    its end; none if it is anything else."""
    found = value_at(text, _after(_FENCE, text, position))
    if found is None:
        return [], position
    value, end = found
    values = value if isinstance(value, list) else [value]
    return _all_or_none(map(named_call, values)), _after(_CLOSED_FENCE, text, end)


def _all_or_none(calls: Iterable[ToolCall | None]) -> list[ToolCall]:
    """Return `calls`; none of them if one could not be read."""
    read = list(calls)
    good = [call for call in read if call is not None]
    return good if len(good) == len(read) else []


def named_call(value: object) -> ToolCall | None:
    """Return the call that an object with a tool's name and arguments stands for."""
    if not isinstance(value, Mapping):
        return None
    inner = value.get("function")
    if isinstance(inner, Mapping):
        value = inner
    name = next(filter(None, map(value.get, NAMES)), None)
    if not isinstance(name, str) or not name:
        return None
    arguments: Any = next((value[key] for key in ARGUMENTS if key in value), {})
    return tool_call("", name.removeprefix("functions."), arguments)


def python_calls(code: str, tools: Tools) -> list[ToolCall]:
    """Return the calls that a piece of Python consists of, also those in a list or in `print`;
    none if it has anything else or calls something that is no tool."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            body = ast.parse(code.strip()).body
            values = [each.value for each in body if isinstance(each, ast.Expr)]
            parts = [e for v in values for e in (v.elts if isinstance(v, ast.List) else [v])]
            calls = _all_or_none(_python_call(part, tools) for part in parts)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return calls if len(values) == len(body) else []


def _python_call(node: Any, tools: Tools) -> ToolCall | None:
    """Return the call of a tool that an expression is. Raises ValueError for arguments that are
    not literals."""
    while isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and node.args:
        node = node.args[0]
    if not isinstance(node, ast.Call):
        return None
    name = next((part for part in ast.unparse(node.func).split(".") if part in tools), None)
    if name is None:
        return None
    given = zip(tools[name].get("properties", {}), node.args, strict=False)
    values = {key: ast.literal_eval(value) for key, value in given}
    values |= {str(each.arg): ast.literal_eval(each.value) for each in node.keywords}
    return tool_call("", name, values)
