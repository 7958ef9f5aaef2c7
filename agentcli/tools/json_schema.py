"""Schemas of arguments without what wastes tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentcli.plain_schemas import LISTS, MAPS, SCHEMAS, plain
from agentcli.shell.output import clean

MOST_CHARS = 20_000


def parameters(schema: Mapping[str, Any], *, terse: bool = False) -> dict[str, Any]:
    """Return `schema` in its plain form, without what tells a model nothing. One that is too large
    is replaced by one that allows anything. A `terse` one does not say whether there are other
    arguments, nor defaults that only say that an argument may be left out."""
    found = _thrifty(plain(schema), terse)
    too_long = len(json.dumps(found, ensure_ascii=False)) > MOST_CHARS
    return {"type": "object", "properties": {}} if too_long else found


def _thrifty(node: dict[str, Any], terse: bool) -> dict[str, Any]:
    kept = {
        key: value
        for key, value in _without_null(node).items()
        if key != "title" and not (terse and _is_of_course(key, value))
    }
    return {key: _value(key, value, terse) for key, value in kept.items()}


def _value(key: str, value: Any, terse: bool) -> Any:
    if key in MAPS:
        return {name: _thrifty(part, terse) for name, part in value.items()}
    if key in LISTS:
        return [_thrifty(part, terse) for part in value]
    return (
        _thrifty(value, terse) if key in SCHEMAS and not isinstance(value, bool) else _clean(value)
    )


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean(value.encode("utf-8", "replace"))
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return {k: _clean(v) for k, v in value.items()} if isinstance(value, dict) else value


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """Drop a null alternative that is the default: it is the same as leaving the argument out, and
    takes a third of the tokens."""
    match node:
        case {"default": None, "anyOf": [dict() as kind, {"type": "null"}]}:
            outer = {key: node[key] for key in node if key not in ("anyOf", "default")}
            return {**kind, **outer}
    return node


def _is_of_course(key: str, value: object) -> bool:
    says_optional = key == "default" and (not value or value == ".")
    return says_optional or (key == "additionalProperties" and isinstance(value, bool))
