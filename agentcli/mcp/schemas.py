"""Describe the tools of servers to the model. What a server says about itself is untrusted text:
it is marked as such, and its size is limited."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agentcli.events.actions import server_tool_name
from agentcli.messages import ToolSchema
from agentcli.shell.output import clean

if TYPE_CHECKING:
    from agentcli.mcp.answers import ServerTool

MOST_DESCRIPTION_CHARS = 2_000
MOST_SCHEMA_CHARS = 20_000
_DEEPEST = 12
_LEFT_OUT = frozenset({"$schema", "$id", "$defs", "definitions", "title", "$comment"})
_NOT_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum")
"""Keys that providers refuse at the top level of a tool's parameters."""


def tool_schema(server: str, tool: ServerTool) -> ToolSchema:
    name = server_tool_name(server, tool.name)
    return ToolSchema(name, told(server, tool), parameters(tool.schema))


def told(server: str, tool: ServerTool) -> str:
    """Return the tool's description, marked as the words of its server."""
    text = one_line(tool.description)[:MOST_DESCRIPTION_CHARS]
    return f"[{server} says:] {text}" if text else f"[{server} does not say what it does]"


def one_line(text: str) -> str:
    """Put `text` on one line, without control characters, as it is shown on screens too."""
    return " ".join(clean(text.encode("utf-8", "replace")).split())


def parameters(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Turn `schema` into a JSON Schema that every provider accepts, as far as possible: references
    are resolved, and what tells a model nothing is left out."""
    try:
        found = _Plain(schema).node(dict(schema), 0)
    except _TooLarge:
        return {"type": "object", "properties": {}}
    result = {key: value for key, value in found.items() if key not in _NOT_AT_TOP}
    result |= {"type": "object", "properties": _table(result, "properties")}
    if len(json.dumps(result, ensure_ascii=False)) > MOST_SCHEMA_CHARS:
        return {"type": "object", "properties": {}}
    return result


def _table(schema: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = schema.get(key)
    return dict(found) if isinstance(found, dict) else {}


def _without_null(node: dict[str, Any]) -> dict[str, Any]:
    """Drop a null alternative that is the default: it is the same as leaving the argument out, and
    takes a third of the tokens."""
    match node:
        case {"default": None, "anyOf": [{"type": str()} as kind, {"type": "null"}]}:
            outer = {key: node[key] for key in node if key not in ("anyOf", "default")}
            return {**kind, **outer}
    return node


class _TooLarge(Exception):
    """A schema grows too large once resolved: references can multiply each other."""


class _Plain:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._definitions = {**_table(schema, "definitions"), **_table(schema, "$defs")}
        self._left = MOST_SCHEMA_CHARS

    def node(self, node: Any, depth: int) -> Any:
        """Return `node` in simple form. Raises _TooLarge."""
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        if depth > _DEEPEST:
            return {}
        if isinstance(node, list):
            return [self.node(item, depth + 1) for item in node]
        if isinstance(node, str):
            return clean(node.encode("utf-8", "replace"))
        if not isinstance(node, dict):
            return node
        if isinstance(reference := node.get("$ref"), str):
            target = self._definitions.get(reference.rpartition("/")[2], {})
            return self.node(target, depth + 1)
        node = _without_null(node)
        return {
            key: {name: self.node(sub, depth + 1) for name, sub in value.items()}
            if key == "properties" and isinstance(value, dict)
            else self.node(value, depth + 1)
            for key, value in node.items()
            if key not in _LEFT_OUT
        }
