"""The rules that the providers put on a tool's schema."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from .checks import Check, array, boolean, either, filled_array, mapping, string, strings

_TYPES = {"object", "array", "string", "number", "integer", "boolean", "null"}
_KEYWORDS: Mapping[str, Check] = {
    "properties": mapping,
    "$defs": mapping,
    "required": strings,
    "enum": array,
    "anyOf": filled_array,
    "oneOf": filled_array,
    "allOf": filled_array,
    "items": either(mapping, boolean),
    "additionalProperties": either(mapping, boolean),
    "description": string,
    "title": string,
    "pattern": string,
    "$ref": string,
}
Place = tuple[str, ...]


def openai_schema(schema: object, name: str, strict: bool) -> Iterator[str]:
    """The rules OpenAI puts on a function's parameters: valid JSON Schema of an object with
    `properties`, no combinators at the top, arrays that say what their items are; in strict mode
    every object closed and every property required."""
    prefix = f"Invalid schema for function '{name}': "
    if not isinstance(schema, dict) or schema.get("type") != "object":
        kind = schema.get("type") if isinstance(schema, dict) else None
        yield f"{prefix}schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{kind}\"'."
        return
    invalid = list(_faults(schema, ()))
    for place, what in invalid:
        yield f"{prefix}In context={place}, {what}."
    if invalid:
        return
    if "properties" not in schema:
        yield f"{prefix}In context=(), object schema missing properties."
    for word in ("oneOf", "anyOf", "allOf", "enum", "not"):
        if word in schema:
            yield f"{prefix}schema must not have '{word}' at the top level."
    for place, part in _subschemas(schema, ()):
        if part.get("type") == "array" and "items" not in part:
            yield f"{prefix}In context={place}, array schema missing items."
        if strict and part.get("type") == "object":
            if part.get("additionalProperties") is not False:
                yield f"{prefix}In context={place}, 'additionalProperties' is required to be false."
            if set(part.get("required", ())) != set(part.get("properties", ())):
                yield f"{prefix}In context={place}, 'required' must include every property."


def anthropic_schema(schema: dict[str, Any], where: str) -> Iterator[str]:
    """The rules Anthropic puts on a tool's input schema: valid JSON Schema of an object, no
    combinators at the top, property names of plain characters."""
    if schema.get("type") != "object":
        yield f"{where}.type: Input should be 'object'"
    for place, what in _faults(schema, ()):
        at = ".".join(place) or "the schema"
        yield f"{where}: JSON schema is invalid: {at} {what}"
        return
    if any(word in schema for word in ("oneOf", "allOf", "anyOf")):
        yield f"{where}: input_schema does not support oneOf, allOf, or anyOf at the top level"
    for name in schema.get("properties", ()):
        if not re.fullmatch(r"[a-zA-Z0-9_.-]{1,64}", name):
            yield f"{where}.properties: Property keys should match '^[a-zA-Z0-9_.-]{{1,64}}$'"


_GEMINI = {
    "type", "format", "description", "nullable", "enum", "items", "maxItems", "minItems",
    "properties", "required", "minProperties", "maxProperties", "minLength", "maxLength",
    "pattern", "minimum", "maximum", "anyOf",
}  # fmt: skip
"""The fields of the message Schema in google/ai/generativelanguage/v1beta/content.proto, without
those that its OpenAI-compatible endpoint refuses."""
_GEMINI_FORMATS = {
    "string": ("enum", "date-time"),
    "integer": ("int32", "int64"),
    "number": ("float", "double"),
}


def gemini_schema(schema: dict[str, Any], where: str) -> Iterator[str]:
    """The rules that Gemini puts on a function's parameters, in its words: the fields of a protocol
    buffer, each value of one type, only texts with an enum, no array or inner object left open."""
    yield from _gemini_faults(schema, where, is_top=True)


def _gemini_faults(schema: object, where: str, *, is_top: bool = False) -> Iterator[str]:
    if not isinstance(schema, dict):
        yield f"Invalid value at '{where}'"
        return
    for name in schema.keys() - _GEMINI:
        yield (
            f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': "
            "Cannot find field."
        )
    if "anyOf" not in schema:
        yield from _gemini_value_faults(schema, where, is_top)
    for name, part in schema.get("properties", {}).items():
        yield from _gemini_faults(part, f"{where}.properties[{name}]")
    for number, part in enumerate(schema.get("anyOf", ())):
        yield from _gemini_faults(part, f"{where}.any_of[{number}]")
    if "items" in schema:
        yield from _gemini_faults(schema["items"], f"{where}.items")


def _gemini_value_faults(schema: dict[str, Any], where: str, is_top: bool) -> Iterator[str]:
    kind = schema.get("type")
    if kind not in [*_TYPES - {"null"}]:
        yield f"Invalid value at '{where}.type': {json.dumps(kind)}"
        return
    if kind == "object" and not schema.get("properties") and not is_top:
        yield f"{where}.properties: should be non-empty for OBJECT type"
    if kind == "array" and "items" not in schema:
        yield f"{where}.items: missing field"
    if not set(schema.get("required", ())) <= set(schema.get("properties", ())):
        yield f"{where}.required: property is not defined"
    if "enum" in schema and kind != "string":
        yield f"{where}.enum: only allowed for STRING type"
    if not all(isinstance(value, str) and value for value in schema.get("enum", ())):
        yield f"{where}.enum: cannot be empty"
    if schema.get("format") not in (None, *_GEMINI_FORMATS.get(str(kind), ())):
        yield f"{where}.format: only 'enum' and 'date-time' are supported for STRING type"


def moonshot_schema(schema: dict[str, Any]) -> Iterator[str]:
    """The rules of MoonshotAI/walle about alternatives, beside those of JSON Schema."""
    said = "tools.function.parameters is not a valid moonshot flavored json schema, details"
    for place, part in _subschemas(schema, ()):
        if "anyOf" in part and "type" in part:
            at = ".".join(place)
            what = "type should be defined in anyOf items instead of the parent schema"
            yield f"{said}: <At path '{at}': when using anyOf, {what}>"
        if isinstance(part.get("type"), list) and part.keys() - {"type", "description", "title"}:
            yield f"{said}: <not allowed in combination with multiple types>"
        for branch in part.get("anyOf", ()):
            if (branch.keys() & part.keys()) - {"description", "title"}:
                yield f"{said}: <conflicting keywords found in anyOf with parent>"


def _faults(schema: object, place: Place) -> Iterator[tuple[Place, str]]:
    """Where a value is no JSON Schema, as far as its usual keywords go."""
    if isinstance(schema, bool):
        return
    if not isinstance(schema, dict):
        yield place, "should be an object or a boolean"
        return
    kinds = schema.get("type", [])
    if any(kind not in _TYPES for kind in map(str, kinds if isinstance(kinds, list) else [kinds])):
        yield place, f"has an unknown type {json.dumps(kinds)}"
    faults = [(key, _KEYWORDS[key](schema[key])) for key in schema if key in _KEYWORDS]
    for key, expected in faults:
        if expected:
            yield (*place, key), f"should be {expected}"
    if not any(expected for _, expected in faults):
        for inner, part in _inside(schema, place):
            yield from _faults(part, inner)


def _subschemas(schema: dict[str, Any], place: Place) -> Iterator[tuple[Place, dict[str, Any]]]:
    """A valid schema and every schema inside it, each with its place."""
    yield place, schema
    for inner, part in _inside(schema, place):
        if isinstance(part, dict):
            yield from _subschemas(part, inner)


def _inside(schema: dict[str, Any], place: Place) -> Iterator[tuple[Place, object]]:
    for key in ("properties", "$defs"):
        for name, part in schema.get(key, {}).items():
            yield (*place, key, name), part
    for key in ("anyOf", "oneOf", "allOf"):
        for number, part in enumerate(schema.get(key, ())):
            yield (*place, key, str(number)), part
    for key in ("items", "additionalProperties"):
        if key in schema:
            yield (*place, key), schema[key]
