"""Replies that are whole as HTTP goes, and wrong in what they hold."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..script import Altered, Call, LengthStop, Reply, Usage
from .fault import (
    CHAT,
    HALF,
    KEY,
    MESSAGES,
    RESPONSES,
    Completes,
    Fails,
    Fault,
    Scene,
    drop,
    each,
    mended,
    put,
    taken,
)

FAULTS: dict[str, Fault] = {}
Odd = Reply | LengthStop | Altered


def unusable(name: str, reply: Odd, reason: str, asked: int, **options: Any) -> dict[str, Fault]:
    """A reply that the model is told about, and that ends the turn when it comes `asked` times."""
    exit_code = 1 if reason == "bad_calls" else 4
    return {
        f"{name}, once": Fault(lambda scene: [reply], Completes(), **options),
        f"{name}, always": Fault(lambda scene: [reply], Fails(reason, exit_code, asked), **options),
    }


# --- no answer, half an answer, refusals --------------------------------------------------------

_UNFINISHED: dict[str, Odd] = {
    "empty": Reply(""),
    "blank": Reply(" \n\t"),
    "cut in the text": LengthStop(Reply("Half an ans")),
    "cut in a call": LengthStop(HALF),
    "cut before anything": LengthStop(Reply("")),
    "cut after a whole call": replace(HALF, finish="length"),
}
for _name, _reply in _UNFINISHED.items():
    FAULTS |= unusable(_name, _reply, "bad_replies", 3)
_ANNOUNCED = Reply("I'll write it now.", finish="tool_calls")
FAULTS |= unusable("calls announced", _ANNOUNCED, "bad_replies", 3, apis=(CHAT, MESSAGES))
for _name, _reply in {
    "filtered": Reply("I can't", finish="content_filter"),
    "filtered, nothing said": Reply("", finish="content_filter"),
    "filtered in a call": replace(HALF, finish="content_filter"),
}.items():
    FAULTS |= unusable(_name, _reply, "content_policy", 2)


def _refusal_field(data: dict[str, Any]) -> Any:
    for choice in data["choices"]:
        said = choice.get("delta") or choice.get("message") or {}
        said["refusal"], said["content"] = said.get("content"), None
    return data


_REFUSED = Altered(Reply("I can't help with that."), each(_refusal_field))
FAULTS |= unusable("refusal field", _REFUSED, "content_policy", 2, apis=(CHAT,))


def _refusal_part(data: dict[str, Any]) -> Any:
    for item in data.get("response", data).get("output", []) or [data.get("item", {})]:
        for part in item.get("content") or []:
            part |= {"type": "refusal", "refusal": part.pop("text")}
    return data


_REFUSED = Altered(Reply("I can't help with that."), each(_refusal_part))
FAULTS |= unusable("refusal part", _REFUSED, "content_policy", 2, apis=(RESPONSES,))

# --- calls --------------------------------------------------------------------------------------

_GOOD = {"path": "ran", "content": "x"}
for _name, _raw in {
    "broken": '{"path": "ran", "content": "x',
    "two objects": '{"path": "ran"}{"content": "x"}',
    "an array": '["ran", "x"]',
    "a string": '"ran"',
    "a number": "7",
    "null": "null",
    "nothing": "",
    "NaN": '{"path": "ran", "content": NaN}',
    "a deep nest": "[" * 50_000,
    "the wrong fields": '{"file": "ran"}',
}.items():
    FAULTS |= unusable(f"arguments: {_name}", Reply("", [Call("write", _raw)]), "bad_calls", 5)
_TWICE = json.dumps(json.dumps(_GOOD))
FAULTS |= taken(
    "arguments encoded twice", Reply("", [Call("write", _TWICE)]), apis=(CHAT, RESPONSES)
)
FAULTS |= taken(
    "arguments encoded twice by Anthropic", Reply("", [Call("write", _TWICE)]), apis=(MESSAGES,),
    streamed=(True,),
)  # fmt: skip


def _loaded(old: Any) -> Any:
    return json.loads(old) if old else old


_OBJECT = Altered(Reply("", [Call("write", _GOOD)], chunk=999), put(arguments=_loaded))
FAULTS |= taken("arguments as an object", _OBJECT, apis=(CHAT, RESPONSES))
_TEXT_INPUT = Altered(Reply("", [Call("write", _GOOD)]), put(input=json.dumps(_GOOD)))
FAULTS |= taken("input as a text", _TEXT_INPUT, apis=(MESSAGES,), streamed=(False,))
for _name, _input in {"an array": ["ran"], "null": None, "a number": 7}.items():
    _reply = Altered(Reply("", [Call("write", _GOOD)]), put(input=_input))
    FAULTS |= unusable(
        f"input: {_name}", _reply, "bad_calls", 5, apis=(MESSAGES,), streamed=(False,)
    )

_LOOK = {"pattern": "*"}
for _name, _id in {
    "empty": "", "long": "i" * 100, "of 64 characters": "i" * 64, "not ASCII": "ümläut",
    "with blanks": "a b\nc", "of another kind": "functions.write:0",
}.items():  # fmt: skip
    FAULTS |= taken(f"id {_name}", Reply("", [Call("write", _GOOD, _id), Call("glob", _LOOK, _id)]))
FAULTS |= {
    "one id in each reply": Fault(
        lambda scene: [Reply("", [Call("glob", _LOOK, "i" * 40)])] * 3 + [HALF],
        Completes(5, ran=True),
    )
}


def _number_id(data: dict[str, Any]) -> Any:
    choice = data["choices"][0] if data["choices"] else {}
    for call in (choice.get("delta") or choice.get("message") or {}).get("tool_calls", []):
        if "id" in call:
            call["id"] = 7
    return data


FAULTS |= taken("id that is a number", Altered(HALF, each(_number_id)), apis=(CHAT,))
for _name, _tool in {
    "unknown": "fly", "empty": "", "long": "n" * 200, "not ASCII": "schreibe_äöü",
    "with blanks": "write the file", "dotted": "files.write", "with NUL": "wri\0te",
    "with a surrogate": "w\ud800",
}.items():  # fmt: skip
    FAULTS |= unusable(f"tool name {_name}", Reply("", [Call(_tool, _GOOD)]), "bad_calls", 5)
FAULTS |= unusable(
    "tool name null", Altered(HALF, put(name=None)), "bad_calls", 5, apis=(CHAT, RESPONSES)
)
FAULTS |= unusable("tool name that is the key", Reply("", [Call(KEY, {"it": KEY})]), "bad_calls", 5)
FAULTS |= taken("tool name in a namespace", Reply("", [Call("functions.write", _GOOD)]))
FAULTS |= taken("calls, but the reply just stops", replace(HALF, finish="stop"))

# --- forms --------------------------------------------------------------------------------------


def _broken(
    name: str, change: Callable[[list[bytes]], list[bytes]], *apis: str, **options: Any
) -> None:
    step = Altered(HALF, change)
    FAULTS.update(mended(name, lambda scene: step, "bad_response", apis=apis, **options))


# With its usage told, a reply that never says how it ended is whole, if there is one.
for _name, _change in {
    "choices missing": drop("choices"),
    "no choices": put(choices=[]),
    "choices null": put(choices=None),
    "message null": put(message=None, delta=None, finish_reason=None),
}.items():
    FAULTS |= unusable(
        _name, Altered(HALF, _change), "bad_response or bad_replies", 3, apis=(CHAT,)
    )
FAULTS |= taken("finish reason null", Altered(HALF, put(finish_reason=None)), apis=(CHAT,))
_broken("choices of texts", put(choices=["half"]), CHAT)
_broken("ended by an error", put(finish_reason=lambda old: old and "error"), CHAT)
_broken("tool calls of texts", put(tool_calls=["write"]), CHAT)
FAULTS |= unusable(
    "function missing", Altered(HALF, drop("function")), "bad_calls", 5, apis=(CHAT,)
)
FAULTS |= taken("status missing", Altered(HALF, drop("status")), apis=(RESPONSES,))
_broken("status in progress", put(status="in_progress"), RESPONSES, streamed=(False,))
FAULTS |= taken(
    "completed in progress", Altered(HALF, put(status="in_progress")), apis=(RESPONSES,),
    streamed=(True,),
)  # fmt: skip
_broken("output of texts", put(output=["half"], item="half"), RESPONSES)
_broken("items without a type", drop("type"), RESPONSES)
FAULTS |= taken("stop reason null", Altered(HALF, put(stop_reason=None)), apis=(MESSAGES,))
_broken("blocks of texts", put(content=["half"], content_block="half"), MESSAGES)
_broken("content null", put(content=None, content_block=None), MESSAGES)
_broken("deltas missing", drop("delta", "content"), MESSAGES)


def _parts(old: Any) -> Any:
    return [{"type": "text", "text": old}, {"type": "thinking", "thinking": []}] if old else old


_PARTED = Altered(HALF, put(content=_parts))
FAULTS |= taken("content of parts", _PARTED, apis=(CHAT,), providers=("mistral",))
FAULTS |= taken("content null beside calls", Altered(HALF, put(content=None)), apis=(CHAT,))
FAULTS |= unusable(
    "content null", Altered(Reply("Hi."), put(content=None)), "bad_replies", 3, apis=(CHAT,)
)

_COUNTS = (
    "prompt_tokens", "completion_tokens", "input_tokens", "output_tokens", "cached_tokens",
    "cache_read_input_tokens", "cache_creation_input_tokens", "reasoning_tokens",
)  # fmt: skip
for _name, _value in {
    "negative": -5, "absurd": 10**30, "infinite": 1e300, "a text": "12", "a list": [1],
    "null": None, "true": True,
}.items():  # fmt: skip
    _counted = put(**dict.fromkeys(_COUNTS, _value))
    FAULTS |= taken(f"usage {_name}", Altered(HALF, _counted))
FAULTS |= taken("usage left out", Altered(HALF, drop("usage")))
FAULTS |= taken("usage is null", Altered(HALF, put(usage=None)))
FAULTS |= taken("usage is a number", Altered(HALF, put(usage=7)))
FAULTS |= taken("usage of zeros", replace(HALF, usage=Usage(0, 0)))
FAULTS |= taken("ids and model left out", Altered(HALF, drop("model", "created", "object")),
                apis=(CHAT, RESPONSES))  # fmt: skip


def _named(scene: Scene) -> Reply:
    return Reply("", [Call("write", _GOOD)], reasoning="Hm.")


FAULTS |= {"reasoning before a call": Fault(lambda scene: [_named(scene)], Completes(2, ran=True))}
