"""Answers bound to a JSON Schema: loads the schema from a file and finds where an answer does not
fit.

Uses `jsonschema`, the reference implementation for Python, maintained by the authors of the
standard.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import validator_for
from jsonschema_specifications import REGISTRY
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from agentcli.errors import UsageError
from agentcli.workspace.names import display_path
from agentcli.workspace.private import NotRegular, read_regular

_DIALECTS = {
    address + end
    for address in (
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        *(f"http://json-schema.org/draft-0{number}/schema" for number in (7, 6, 4, 3)),
    )
    for end in ("", "#")
}
MAX_SCHEMA_BYTES = 100_000
"""The limit is low because the schema is part of every request."""
_MOST_FAULTS = 20
_LONGEST_FAULT = 300
_FENCED = re.compile(r"(`{3,}|~{3,})[ \t]*(?:json)?[ \t]*\n(.*?)\n?[ \t]*\1[ \t]*", re.S | re.I)


@dataclass(frozen=True)
class Document:
    """`text` is the part of an answer that should be JSON; `fault` says why it is not."""

    text: str
    value: Any = None
    fault: str = ""


def load_schema(path: Path) -> dict[str, Any]:
    """Return the schema in a file. Raises UsageError if answers can't be checked against it."""
    named = f"--output-schema {display_path(path)}"
    try:
        data, _ = read_regular(path, MAX_SCHEMA_BYTES + 1, follow=True)
    except (NotRegular, IsADirectoryError) as error:
        raise UsageError(f"{named}: it is not a file") from error
    except OSError as error:
        raise UsageError(f"{named}: it can't be read: {error.strerror}") from error
    if len(data) > MAX_SCHEMA_BYTES:
        raise UsageError(f"{named}: it is longer than {MAX_SCHEMA_BYTES:,} bytes")
    try:
        schema = _parsed(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{named}: it is not JSON: {_reason(error)}") from error
    return checked_schema(schema, named)


def checked_schema(schema: Any, named: str) -> dict[str, Any]:
    """Return `schema`, checked. Raises UsageError, starting with `named`, if answers can't be
    checked against it."""
    if not isinstance(schema, dict):
        raise UsageError(f"{named}: a JSON Schema is an object, this is {_kind(schema)}")
    try:
        kind = _validator_class(schema)
        kind.check_schema(schema)
        _require_local(schema)
        # One that refers to itself without end can't judge anything.
        list(kind(schema, registry=REGISTRY).iter_errors(None))
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path))
        raise UsageError(
            f"{named}: it is not a JSON Schema: {where or 'at the top'}: {_short(error.message)}"
        ) from error
    except ValueError as error:
        raise UsageError(f"{named}: {error}") from error
    except RecursionError as error:
        raise UsageError(f"{named}: it refers to itself without end, or is too deep") from error
    return schema


def document_in(answer: str) -> Document:
    """Return the JSON in an answer: the whole, or what is inside if it is one fenced block."""
    text = answer.strip()
    if fenced := _FENCED.fullmatch(text):
        text = fenced[2].strip()
    try:
        return Document(text, _parsed(text))
    except (ValueError, RecursionError) as error:
        return Document(text, fault=f"it is not one JSON document: {_reason(error)}")


def faults(document: Document, schema: dict[str, Any]) -> list[str]:
    """Return what does not fit and where, in the order of the document; empty if all fits."""
    if document.fault:
        return [document.fault]
    validator = _validator_class(schema)(schema, registry=REGISTRY)
    try:
        errors = sorted(validator.iter_errors(document.value), key=_place)
    except (RecursionError, Unresolvable) as error:
        return [f"it can't be checked: {_short(str(error)) or 'it is nested too deeply'}"]
    told = list(dict.fromkeys(map(_told, errors)))
    more = len(told) - _MOST_FAULTS
    return [*told[:_MOST_FAULTS], *([f"… and {more} more"] if more > 0 else [])]


def _validator_class(schema: dict[str, Any]) -> type[Validator]:
    """Return the validator for the schema's dialect. Raises ValueError for an unknown one."""
    named = schema.get("$schema")
    if named is not None and named not in _DIALECTS:
        raise ValueError(f"$schema {named!r} is an unknown dialect; draft 2020-12 is known")
    return validator_for(schema, default=Draft202012Validator)


def _require_local(schema: dict[str, Any]) -> None:
    """Raise ValueError for a reference that leads outside the schema and those of the standard:
    nothing is fetched."""
    root = Resource.from_contents(schema, default_specification=DRAFT202012)
    base = root.id() or ""
    registry: Registry[Any] = REGISTRY.with_resource(base, root).crawl()
    _check_references(root, registry.resolver(base))


def _check_references(resource: Any, resolver: Any) -> None:
    contents = resource.contents if isinstance(resource.contents, dict) else {}
    for keyword in ("$ref", "$dynamicRef"):
        if isinstance(reference := contents.get(keyword), str):
            try:
                resolver.lookup(reference)
            except Unresolvable as error:
                raise ValueError(
                    f"{keyword} {reference!r} is not in the file, and nothing outside it is fetched"
                ) from error
    for inner in resource.subresources():
        _check_references(inner, resolver.in_subresource(inner))


def _told(error: ValidationError) -> str:
    """Describe an error; for `anyOf` and the like, that of the branch closest to fitting."""
    inner = best_match([error]) or error
    return f"at {inner.json_path}: {_short(inner.message)}"


def _place(error: ValidationError) -> list[tuple[bool, int, str]]:
    return [
        (isinstance(step, str), step if isinstance(step, int) else 0, str(step))
        for step in error.absolute_path
    ]


def _parsed(text: str) -> Any:
    """Parse JSON strictly. Raises ValueError, or RecursionError if it is nested too deeply."""
    return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_once)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a valid JSON number")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for n, (name, _) in enumerate(pairs) if name in dict(pairs[:n]))
        raise ValueError(f"{twice!r} appears twice in one object")
    return found


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else _short(str(error))


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_FAULT else f"{line[: _LONGEST_FAULT - 1]}…"


def _kind(value: Any) -> str:
    names = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
