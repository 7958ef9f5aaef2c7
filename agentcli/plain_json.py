"""Valid JSON from what others wrote: schemas of tools' arguments, and the arguments of calls.

Tool servers and outside packages write schemas by older drafts, by OpenAPI or by hand. Providers
check all tools of a request at once, so one invalid schema would cost the whole request.
The draft: https://json-schema.org/draft/2020-12
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
_DEEPEST = 10
"""Levels of nesting that OpenAI takes (https://platform.openai.com/docs/guides/structured-outputs);
others don't say."""
_MOST_SCHEMAS = 2_000
"""Most schemas in one, with references resolved; these can multiply each other."""
_LONGEST_PATTERN = 1_000
_NOT_AT_TOP = ("anyOf", "oneOf", "allOf", "not", "enum")
"""Keywords that OpenAI and Anthropic refuse at the top level."""
_TYPE_WORDS = {
    "any": (),
    "int": ("integer",),
    "long": ("integer",),
    "float": ("number",),
    "double": ("number",),
    "decimal": ("number",),
    "bool": ("boolean",),
    "str": ("string",),
    "text": ("string",),
    "date": ("string",),
    "datetime": ("string",),
    "file": ("string",),
    "dict": ("object",),
    "map": ("object",),
    "list": ("array",),
    "tuple": ("array",),
    "set": ("array",),
    "none": ("null",),
    **{kind: (kind,) for kind in TYPES},
}
"""What people write as a type, with the types that it stands for."""
_MOST_CHARS = 200_000
"""The repair takes time that grows faster than the text."""
_GUESSED = re.compile("missed|misplaced|different meaning")
"""In what json-repair tells of a repair: it had to guess where a text ends."""


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


SCHEMAS = words(
    "items additionalProperties not if then else contains propertyNames "
    "unevaluatedItems unevaluatedProperties"
)
"""Keywords whose value is a schema."""
LISTS = words("anyOf oneOf allOf prefixItems")
"""Keywords whose value is a list of schemas."""
MAPS = words("properties patternProperties dependentSchemas")
"""Keywords whose value has schemas by name."""

_BOOLEANS = words("additionalProperties unevaluatedItems unevaluatedProperties")
_LEFT_OUT = words(
    "$schema $id $anchor $dynamicAnchor $dynamicRef $recursiveAnchor $recursiveRef "
    "$vocabulary $comment $defs definitions dependencies"
)
"""Keywords that are only about a schema as a document, or are no longer known."""


def parts(schema: Schema) -> Iterator[Schema]:
    """Yield the schemas that stand directly within a plain one."""
    for key, value in schema.items():
        if key in MAPS:
            yield from value.values()
        elif key in LISTS:
            yield from value
        elif key in SCHEMAS and isinstance(value, dict):
            yield value


def plain(schema: object) -> dict[str, Any]:
    """Return `schema` as valid JSON Schema of type object, with its references resolved; itself if
    there is nothing to change. What is invalid is left out; a schema that is none, or that grows
    too large, allows any arguments."""
    try:
        found = _of_object(_Reader(schema).read(schema))
    except (_TooLarge, RecursionError):
        found = _of_object({})
    return schema if isinstance(schema, dict) and schema == found else found


class _TooLarge(Exception):
    """A schema grows too large once its references are resolved."""


class _Gone:
    """Stands for a value that is left out."""


_GONE = _Gone()


class _Reader:
    def __init__(self, root: object) -> None:
        self._root = root
        self._left = _MOST_SCHEMAS

    def read(self, node: object, depth: int = 0, within: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return `node` as a valid schema; `within` are the references that led to it. Raises
        _TooLarge."""
        self._left -= 1
        if self._left < 0:
            raise _TooLarge
        if not isinstance(node, dict):
            return {}
        while isinstance(reference := node.get("$ref"), str):
            target = self._target(reference)
            siblings = {key: value for key, value in node.items() if key != "$ref"}
            if reference in within or not isinstance(target, dict):
                is_object = isinstance(target, dict) and "properties" in target
                node = {**({"type": "object"} if is_object else {}), **siblings}
            else:
                within = (*within, reference)
                node = {**target, **siblings}
        read = {key: self._value(key, value, depth, within) for key, value in _modern(node).items()}
        return {key: value for key, value in read.items() if value is not _GONE}

    def _value(self, key: str, value: Any, depth: int, within: tuple[str, ...]) -> Any:
        if key in _LEFT_OUT or key == "$ref":
            return _GONE
        if fits := _FITTING.get(key):
            return value if fits(value) else _GONE
        if key in _BOOLEANS and isinstance(value, bool):
            return value
        if key not in SCHEMAS | LISTS | MAPS:
            return value
        if depth == _DEEPEST:
            return {} if key == "items" else _GONE
        if key in SCHEMAS:
            is_schema = isinstance(value, dict) or (key == "items" and value is True)
            return self.read(value, depth + 1, within) if is_schema else _GONE
        if key in LISTS:
            if not isinstance(value, list):
                return _GONE
            parts = [part for part in value if isinstance(part, dict) or part is True]
            return [self.read(part, depth + 1, within) for part in parts] or _GONE
        if not isinstance(value, dict):
            return _GONE
        return {
            name: self.read(part, depth + 1, within)
            for name, part in value.items()
            if part is not False and (key != "patternProperties" or _is_pattern(name))
        }

    def _target(self, reference: str) -> object:
        """Return what a JSON pointer into the whole schema stands for, or None."""
        if not reference.startswith("#"):
            return None
        found: object = self._root
        for part in reference[1:].split("/")[1:]:
            part = part.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(part)
            elif isinstance(found, list) and part.isdecimal() and int(part) < len(found):
                found = found[int(part)]
            else:
                return None
        return found


def _modern(node: dict[str, Any]) -> dict[str, Any]:
    """Return `node` in the words of the newest draft."""
    changes: dict[str, Any] = {}
    if "type" in node and (kind := _type(node["type"])) != node["type"]:
        changes["type"] = kind
    for bound, plain_bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(node.get(bound), bool):
            changes[bound] = node.get(plain_bound, _GONE) if node[bound] else _GONE
            changes |= {plain_bound: _GONE} if node[bound] else {}
    if isinstance(node.get("items"), list):
        changes |= {"prefixItems": node["items"], "items": {}}
    if "enum" in node and (values := _enum(node["enum"])) != node["enum"]:
        changes["enum"] = values
    if isinstance(node.get("properties"), list):
        changes["properties"] = dict(_named(node["properties"]))
    required = list(_required(node, changes.get("properties", node.get("properties"))))
    if required != node.get("required", []):
        changes["required"] = required or _GONE
    kind = changes.get("type", node.get("type"))
    is_array = kind == "array" or (isinstance(kind, list) and "array" in kind)
    if is_array and not isinstance(changes.get("items", node.get("items")), dict):
        changes["items"] = {}
    return {key: value for key, value in {**node, **changes}.items() if value is not _GONE}


def _type(value: object) -> Any:
    """Return the type or types that `value` names; _GONE if these are none or all."""
    words = value if isinstance(value, list) else [value]
    kinds: list[str] = []
    for word in words:
        if not isinstance(word, str):
            return _GONE
        for each in word.split("|"):
            meant = _TYPE_WORDS.get(each.strip().lower(), ())
            if not meant:
                return _GONE
            kinds += [kind for kind in meant if kind not in kinds]
    if isinstance(value, list):
        return kinds or _GONE
    return kinds[0] if len(kinds) == 1 else kinds


def _enum(values: object) -> Any:
    if isinstance(values, str | int | float) and not isinstance(values, bool):
        return [values]
    if not isinstance(values, list):
        return _GONE
    kept: list[Any] = []
    for value in values:
        if not any(value == each and type(value) is type(each) for each in kept):
            kept.append(value)
    return kept or _GONE


def _named(parts: list[Any]) -> Iterator[tuple[str, Any]]:
    """Yield properties that are written as a list of schemas with names."""
    for part in parts:
        if isinstance(part, dict) and isinstance(name := part.get("name"), str):
            yield name, {key: value for key, value in part.items() if key != "name"}


def _required(node: dict[str, Any], properties: object) -> Iterator[str]:
    """Yield the names of required properties; older drafts note it at the property."""
    value = node.get("required")
    seen = set()
    for name in value if isinstance(value, list) else [value]:
        if isinstance(name, str) and name not in seen:
            seen.add(name)
            yield name
    for name, part in properties.items() if isinstance(properties, dict) else ():
        if isinstance(part, dict) and part.get("required") is True and name not in seen:
            yield name


def _is_number(value: object) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value)  # type: ignore[arg-type]


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_pattern(value: object) -> bool:
    """Whether `value` is a regular expression for Python too: OpenAI checks patterns with it, and
    answers `… is not a 'regex'`."""
    if not isinstance(value, str) or len(value) > _LONGEST_PATTERN:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True


def _is_names_by_name(value: object) -> bool:
    return isinstance(value, dict) and all(
        isinstance(names, list) and all(isinstance(name, str) for name in names)
        for names in value.values()
    )


_FITTING: Mapping[str, Callable[[Any], bool]] = {
    **dict.fromkeys(
        ("title", "description", "format", "contentEncoding", "contentMediaType"),
        lambda value: isinstance(value, str),
    ),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _is_number),
    **dict.fromkeys(
        words(
            "minLength maxLength minItems maxItems minProperties maxProperties minContains "
            "maxContains"
        ),
        _is_count,
    ),
    **dict.fromkeys(
        ("uniqueItems", "readOnly", "writeOnly", "deprecated", "nullable"),
        lambda value: isinstance(value, bool),
    ),
    "multipleOf": lambda value: _is_number(value) and value > 0,
    "pattern": _is_pattern,
    "examples": lambda value: isinstance(value, list),
    "required": lambda value: isinstance(value, list),
    "dependentRequired": _is_names_by_name,
}
"""Keywords whose values are no schemas, with what is valid."""


def _of_object(schema: dict[str, Any]) -> dict[str, Any]:
    """Return `schema` as one of type object without combinations at its top. What alternatives
    describe may all be given; required is what each of them requires."""
    kind = schema.get("type")
    if kind is not None and kind != "object" and "object" not in kind:
        schema = {key: schema[key] for key in ("description",) if key in schema}
    properties, required = _merged(schema)
    result = {key: value for key, value in schema.items() if key not in _NOT_AT_TOP}
    result |= {"type": "object", "properties": properties}
    return {**result, "required": required} if required else result


def _merged(schema: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the properties of `schema` and of what it combines, and the required ones."""
    own = schema.get("properties", {})
    properties = dict(own)
    required = list(schema.get("required", ()))
    for key in ("allOf", "anyOf", "oneOf"):
        parts = [_merged(part) for part in schema.get(key, ())]
        for table, _ in parts:
            for name, part in table.items():
                if name not in own:
                    properties[name] = _either(properties.get(name, part), part)
        for name in dict.fromkeys(name for _, names in parts for name in names):
            in_all = key == "allOf" or all(name in names for _, names in parts)
            if in_all and name not in required:
                required.append(name)
    return properties, required


def _either(first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    if first == second:
        return first
    earlier = first["anyOf"] if list(first) == ["anyOf"] else [first]
    return first if second in earlier else {"anyOf": [*earlier, second]}


def mended(raw: str) -> str:
    """Return `raw` as a JSON object if it is one but for its form: a raw line break, a comma too
    many, quotes of another kind, a code fence around it. Anything else is returned unchanged, above
    all what may have been cut off, which would be run in part."""
    if len(raw) > _MOST_CHARS or _is_json(raw):
        return raw
    import json_repair

    try:
        value, told = json_repair.repair_json(raw, return_objects=True, logging=True)
    except RecursionError:
        return raw
    guessed = any(_GUESSED.search(entry["text"]) for entry in told)
    whole = raw.rstrip("`\n ").endswith("}")
    if guessed or not whole or not isinstance(value, dict):
        return raw
    return json.dumps(value, ensure_ascii=False)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
