"""Simplifies JSON Schemas of arguments so far that every provider accepts them and no token is
wasted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agentcli.shell.output import clean

MOST_CHARS = 20_000
_DEEPEST = 12
_LEFT_OUT = frozenset({"$schema", "$id", "$defs", "definitions", "title", "$comment"})
_NOT_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum")
"""Keys that providers refuse at the top level of a tool's parameters."""


def parameters(schema: Mapping[str, Any], *, terse: bool = False) -> dict[str, Any]:
    """Return `schema` with its references resolved, and without what tells a model nothing. One
    that gets too large is replaced by one that allows anything. A `terse` one does not say whether
    there are other arguments, nor defaults that only say that an argument may be left out."""
    anything = {"type": "object", "properties": {}}
    try:
        found = _Simplifier(schema, terse=terse).simplified(dict(schema), 0)
    except _TooLarge:
        return anything
    result = {key: value for key, value in found.items() if key not in _NOT_AT_TOP}
    result |= {"type": "object", "properties": _table(result, "properties")}
    too_long = len(json.dumps(result, ensure_ascii=False)) > MOST_CHARS
    return anything if too_long else result


def _table(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = schema.get(key)
    return dict(found) if isinstance(found, dict) else {}


class _TooLarge(Exception):
    """A schema grows too large once resolved: references can multiply each other."""


class _Simplifier:
    def __init__(self, schema: Mapping[str, Any], *, terse: bool) -> None:
        self._terse = terse
        self._definitions = {**_table(schema, "definitions"), **_table(schema, "$defs")}
        self._left = MOST_CHARS

    def simplified(self, node: Any, depth: int) -> Any:
        """Return `node` in simple form. Raises _TooLarge."""
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        if depth > _DEEPEST:
            return {}
        if isinstance(node, list):
            return [self.simplified(item, depth + 1) for item in node]
        if isinstance(node, str):
            return clean(node.encode("utf-8", "replace"))
        if not isinstance(node, dict):
            return node
        node = _without_null(node)
        if isinstance(reference := node.get("$ref"), str):
            target = self._definitions.get(reference.rpartition("/")[2], {})
            return self.simplified(target, depth + 1)
        return {
            key: {name: self.simplified(sub, depth + 1) for name, sub in value.items()}
            if key == "properties" and isinstance(value, dict)
            else self.simplified(value, depth + 1)
            for key, value in node.items()
            if key not in _LEFT_OUT and not (self._terse and _is_of_course(key, value))
        }


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
