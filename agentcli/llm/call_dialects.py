"""How families of models write tool calls and thinking into their text.

A server whose chat template or parser does not know its model passes such text on as the answer.
The forms are those of the models' chat templates, as read by the parsers of vLLM
(vllm/tool_parsers), SGLang (srt/function_call) and Ollama (model/parsers).
"""

# DeepSeek's marks have a wide bar.
# ruff: noqa: RUF001

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NAME = r"""\s*["']?(?:functions\.)?(?P<name>[\w.-]+)["']?(?::\d+)?\s*"""
_VALUE = r"\n?(?P<value>.*?)\n?"
_M3 = re.escape("]<]minimax[>[")
_CAT = "(?:longcat_)?"
_INVOKE_TAGS = ("invoke name=", "function_calls>")
_PREFIX = "(?:antml:|｜DSML｜)?"


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
