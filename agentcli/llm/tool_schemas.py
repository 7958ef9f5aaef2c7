"""Translates tools' schemas into what a provider takes, and the arguments of calls back.

Providers take different parts of JSON Schema, and refuse a request for one tool that uses another.
A tool's own schema is what it gets arguments by; what the model sees of it may have other names of
properties, and values as text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agentcli.events.texts import json_value
from agentcli.messages import ToolCall, ToolSchema
from agentcli.plain_json import LISTS, MAPS, SCHEMAS, Schema, mended, parts, plain, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What a provider takes of JSON Schema (draft 2020-12, type object); all that is not said."""

    names: str = r"[a-zA-Z0-9_.-]{1,64}"
    """The names of properties, as a regular expression. As given here, Anthropic takes them, which
    many gateways lead to: `Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'`."""
    only: frozenset[str] = frozenset()
    """The keywords that are taken; empty: any."""
    without: frozenset[str] = frozenset()
    """Keywords that are refused."""
    lone_unions: bool = False
    """Whether alternatives are told by `anyOf` only, with nothing but words beside it."""
    is_openapi: bool = False
    """Whether a value has one type and may be `nullable`, only texts have an `enum`, and an object
    says its properties. What these rules can't tell is declared as text that holds JSON."""


DIALECTS: Mapping[str, Dialect] = {
    "": Dialect(),
    # Texts of refusals and the message Schema of content.proto, which names the fields there are:
    # https://github.com/googleapis/googleapis/blob/master/google/ai/generativelanguage/v1beta
    # `default` and `title` are among them, but refused by the OpenAI-compatible endpoint.
    "gemini": Dialect(
        only=words(
            "type format description nullable enum items minItems maxItems properties "
            "required minProperties maxProperties minLength maxLength pattern minimum maximum "
            "anyOf"
        ),
        lone_unions=True,
        is_openapi=True,
    ),
    # The rules of MoonshotAI/walle, and `when using anyOf, type should be defined in anyOf items
    # instead of the parent schema`.
    "moonshot": Dialect(lone_unions=True),
    # Its grammars take neither most patterns nor many repetitions (json-schema-to-grammar.cpp).
    "llamacpp": Dialect(without=words("pattern minLength maxLength minItems maxItems")),
}
"""The rows that `Traits.schema` names."""

_WORDS = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
_UNIONS = ("anyOf", "oneOf")
_CONDITIONS = words("if then else not dependentSchemas dependentRequired propertyNames")
_OF_TYPE = {
    "object": words(
        "properties required additionalProperties patternProperties minProperties "
        "maxProperties unevaluatedProperties"
    ),
    "array": words(
        "items prefixItems minItems maxItems uniqueItems contains minContains maxContains "
        "unevaluatedItems"
    ),
    "string": words("minLength maxLength pattern format contentEncoding contentMediaType"),
    "number": words("minimum maximum exclusiveMinimum exclusiveMaximum multipleOf"),
}
"""Keywords that are about values of one type."""
_FORMATS = {"string": ("date-time",), "integer": ("int32", "int64"), "number": ("float", "double")}
"""Formats of OpenAPI; of others Gemini says `only 'enum' and 'date-time' are supported`."""
_PYTHON_TYPES = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


class WireTools:
    """Tools in the terms of an endpoint. `dialect` is a row of DIALECTS; `unwanted` are keywords
    that it refuses besides. A tool stays known after it was declared once, as calls of it stay in
    the conversation. Used from one thread at a time."""

    def __init__(self, dialect: str, unwanted: Sequence[str] = ()) -> None:
        row = DIALECTS.get(dialect, DIALECTS[""])
        self._dialect = replace(row, without=row.without | set(unwanted))
        self._tools: Sequence[ToolSchema] = ()
        self._translated: dict[str, _Translation] = {}
        self._declared: tuple[ToolSchema, ...] = ()

    def declared(self, tools: Sequence[ToolSchema]) -> tuple[ToolSchema, ...]:
        """Return `tools` as they are declared; those that need no change are the same objects."""
        if tools is not self._tools:
            for tool in tools:
                found = self._translated.get(tool.name)
                if found is None or found.tool is not tool:
                    self._translated[tool.name] = _Translation(tool, self._dialect)
            self._declared = tuple(self._translated[tool.name].declared for tool in tools)
            self._tools = tools
        return self._declared

    def own(self, call: ToolCall) -> ToolCall:
        """Return a model's call with arguments in the tool's own terms, for which those that are
        JSON but for their form are mended."""
        found = self._translated.get(call.name)
        if found is None or not found.differs:
            return call
        whole = mended(call.arguments)
        arguments = found.moved(whole, to_wire=False)
        if arguments == call.arguments:
            return call
        before = call.arguments if whole != call.arguments else None
        return replace(call, arguments=arguments, arguments_before=before)

    def wire(self, name: str, raw_arguments: str) -> str:
        """Return the arguments of a call as a model would have given them."""
        found = self._translated.get(name)
        return raw_arguments if found is None else found.moved(raw_arguments, to_wire=True)


class _Translation:
    def __init__(self, tool: ToolSchema, dialect: Dialect) -> None:
        self.tool = tool
        self._schema = plain(tool.parameters)
        self._names = _wire_names(self._schema, dialect.names)
        self._own_names = {wire: own for own, wire in self._names.items()}
        narrower = _Narrower(dialect, self._names)
        narrowed = narrower.narrowed(self._schema, is_top=True)
        self._has_texts = narrower.has_texts
        self.differs = bool(self._names) or self._has_texts
        """Whether arguments are given in other terms than the tool's own."""
        same = narrowed == tool.parameters
        self.declared = tool if same else replace(tool, parameters=narrowed)

    def moved(self, raw: str, *, to_wire: bool) -> str:
        """Return `raw` arguments with names and texts translated; those that are no JSON object,
        and those in which nothing changes, as they are."""
        if not self.differs:
            return raw
        try:
            values = json.loads(raw)
            found = self._members(values, [self._schema], to_wire)
        except (ValueError, RecursionError):
            return raw
        return raw if found == values else json.dumps(found, ensure_ascii=False)

    def _members(self, value: Any, schemas: Sequence[Schema], to_wire: bool) -> Any:
        """Return `value`, which is described by one of `schemas`, with its members translated."""
        if isinstance(value, dict):
            names = self._names if to_wire else self._own_names
            by_name: dict[str, list[Schema]] = {}
            others: list[Schema] = []
            for schema in schemas:
                for name, part in schema.get("properties", {}).items():
                    by_name.setdefault(name, []).append(part)
                others += schema.get("patternProperties", {}).values()
                if isinstance(more := schema.get("additionalProperties"), dict):
                    others.append(more)
            found = {}
            for key, item in value.items():
                new = names.get(key, key)
                own = key if to_wire else new
                if own not in by_name:
                    own = new = key
                found[new] = self._value(item, by_name.get(own, others), to_wire)
            return found
        if isinstance(value, list):
            firsts = [schema.get("prefixItems", ()) for schema in schemas]
            rest = [schema["items"] for schema in schemas if "items" in schema]
            return [
                self._value(item, [p[n] for p in firsts if n < len(p)] or rest, to_wire)
                for n, item in enumerate(value)
            ]
        return value

    def _value(self, value: Any, schemas: Sequence[Schema], to_wire: bool) -> Any:
        every = [each for schema in schemas for each in alternatives(schema)]
        kinds = {_kind(each) for each in every if _is_open(each)} if self._has_texts else set()
        if not kinds:
            return self._members(value, every, to_wire)
        is_text = any(_kind(each) == "string" for each in every)
        if to_wire:
            value = self._members(value, every, to_wire)
            is_shown = isinstance(value, dict | list) or (None in kinds and not is_text)
            shown_as_it_is = isinstance(value, str) and json_value(value, value) is value
            return (
                json.dumps(value, ensure_ascii=False) if is_shown and not shown_as_it_is else value
            )
        parsed = json_value(value, value) if isinstance(value, str) else value
        if not isinstance(parsed, dict | list) and (is_text or None not in kinds):
            return value
        return self._members(parsed, every, to_wire)


def _wire_names(schema: Schema, pattern: str) -> dict[str, str]:
    """Return, for the names of properties that don't fit `pattern`, others that do; none of them
    occurs in `schema`."""
    every = dict.fromkeys(_property_names(schema))
    taken = {name for name in every if re.fullmatch(pattern, name)}
    names: dict[str, str] = {}
    for name in every:
        if name not in taken:
            wire = base = re.sub(r"[^a-zA-Z0-9_.-]", "_", name)[:60] or "_"
            number = 2
            while wire in taken:
                wire, number = f"{base}_{number}", number + 1
            taken.add(wire)
            names[name] = wire
    return names


def _property_names(schema: Schema) -> Iterator[str]:
    yield from schema.get("properties", ())
    for part in parts(schema):
        yield from _property_names(part)


class _Narrower:
    """Translates a schema; `has_texts` says whether something of it is declared as text."""

    def __init__(self, dialect: Dialect, names: Mapping[str, str]) -> None:
        self._dialect = dialect
        self._names = names
        self.has_texts = False

    def narrowed(self, node: Schema, *, is_top: bool = False) -> Schema:
        if self._dialect.lone_unions and not is_top:
            node = self._union(node)
        if self._dialect.is_openapi:
            node = self._openapi(node, is_top)
        return {key: self._value(key, node[key]) for key in node if self._is_taken(key)}

    def _is_taken(self, key: str) -> bool:
        if key in self._dialect.without or (self._names and key in _CONDITIONS):
            return False
        return not self._dialect.only or key in self._dialect.only

    def _value(self, key: str, value: Any) -> Any:
        names = self._names
        if key == "properties":
            return {names.get(name, name): self._property(name, value[name]) for name in value}
        if key == "required":
            return [names.get(name, name) for name in value]
        if key in MAPS:
            return {name: self.narrowed(part) for name, part in value.items()}
        if key in LISTS:
            return [self.narrowed(part) for part in value]
        return self.narrowed(value) if key in SCHEMAS and isinstance(value, dict) else value

    def _property(self, name: str, schema: Schema) -> Schema:
        found = self.narrowed(schema)
        is_told = name in self._names and "title" not in found and self._is_taken("title")
        return {**found, "title": name} if is_told else found

    def _union(self, node: Schema) -> Schema:
        """Return `node` with its alternatives as those of `anyOf`, each with what applies to it."""
        if not isinstance(node.get("type"), list) and not any(key in node for key in LISTS):
            return node
        words = {key: node[key] for key in _WORDS if key in node}
        every = alternatives({key: node[key] for key in node if key not in _WORDS})
        real = [each for each in every if each.get("type") != "null"]
        if self._dialect.is_openapi and len(real) < len(every):
            words["nullable"] = True
            every = real
        # A word that stands at both conflicts; that of the whole counts.
        every = [{key: each[key] for key in each if key not in words} for each in every]
        every = [each for n, each in enumerate(every) if each not in every[:n]]
        return {**words, "anyOf": every} if len(every) > 1 else {**dict(*every), **words}

    def _openapi(self, node: Schema, is_top: bool) -> Schema:
        if "anyOf" in node and not is_top:
            return node
        kind = _kind(node)
        if not is_top and _is_open(node):
            self.has_texts = True
            said = _noted({"description": "", **node}, "as JSON")
            kept = {key: node[key] for key in ("nullable",) if key in node}
            return {"type": "string", "description": said["description"], **kept}
        changed = {**node, "type": kind}
        if "const" in node:
            changed["enum"] = [node["const"]]
        if values := changed.pop("enum", None):
            texts = [value for value in values if isinstance(value, str) and value]
            if kind == "string" and texts:
                changed["enum"] = texts
            else:
                changed = _noted(changed, f"one of {json.dumps(values, ensure_ascii=False)}")
            changed |= {"nullable": True} if None in values else {}
        form = changed.get("format")
        if form and form not in _FORMATS.get(str(kind), ()):
            changed = _noted({key: changed[key] for key in changed if key != "format"}, form)
        if kind == "array":
            changed.setdefault("items", {})
        if "required" in changed:
            table = changed.get("properties", {})
            changed["required"] = [name for name in changed["required"] if name in table]
            changed = {key: value for key, value in changed.items() if value != []}
        return changed


def _noted(node: dict[str, Any], note: str) -> dict[str, Any]:
    said = node.get("description", "")
    return {**node, "description": f"{said} ({note})" if said else f"({note})"}


def alternatives(schema: Schema) -> list[Schema]:
    """Return schemas without combinations and with at most one type, of which a value that fits
    `schema` fits one."""
    whole = {key: value for key, value in schema.items() if key not in _UNIONS}
    unions = [branch for key in _UNIONS for branch in schema.get(key, ())]
    while parts := whole.pop("allOf", None):
        for part in parts:
            unions += [branch for key in _UNIONS for branch in part.get(key, ())]
            whole = _both({key: part[key] for key in part if key not in _UNIONS}, whole)
    if unions:
        return [each for branch in unions for each in alternatives(_both(whole, branch))]
    kinds = whole.get("type")
    if not isinstance(kinds, list):
        return [whole]
    return [each for kind in kinds if (each := _of_kind(whole, kind)) is not None]


def _both(outer: Schema, inner: Schema) -> dict[str, Any]:
    """Return what both schemas say; `inner` has precedence."""
    both = {**outer, **inner}
    if "properties" in outer and "properties" in inner:
        both["properties"] = {**outer["properties"], **inner["properties"]}
    if "required" in outer and "required" in inner:
        both["required"] = list(dict.fromkeys([*outer["required"], *inner["required"]]))
    if "allOf" in outer and "allOf" in inner:
        both["allOf"] = [*outer["allOf"], *inner["allOf"]]
    return both


def _of_kind(schema: Schema, kind: str) -> dict[str, Any] | None:
    """Return what `schema` says of values of the type `kind`; None if its `enum` has none."""
    applies = _OF_TYPE.get("number" if kind == "integer" else kind, frozenset())
    others = frozenset[str]().union(*_OF_TYPE.values()) - applies
    found = {key: value for key, value in schema.items() if key not in others}
    if "enum" in schema:
        fitting = (kind, "integer") if kind == "number" else (kind,)
        found["enum"] = [v for v in schema["enum"] if _PYTHON_TYPES.get(type(v)) in fitting]
    return {**found, "type": kind} if found.get("enum", True) else None


def _kind(schema: Schema) -> str | None:
    """Return the type that a schema without combinations has, or else speaks of."""
    if isinstance(declared := schema.get("type"), str):
        return declared
    values = [schema["const"]] if "const" in schema else schema.get("enum", ())
    kinds = {_PYTHON_TYPES.get(type(value)) for value in values if value is not None}
    if len(kinds) == 1:
        return kinds.pop()
    found = [kind for kind, keys in _OF_TYPE.items() if not keys.isdisjoint(schema)]
    return found[0] if found else None


def _is_open(schema: Schema) -> bool:
    """Whether a value may be anything, or an object with any members."""
    kind = _kind(schema)
    return kind in (None, "null") or (kind == "object" and not schema.get("properties"))
