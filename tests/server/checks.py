"""Checks of parsed JSON, worded as the providers word their refusals."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

Check = Callable[[object], str]
"""Takes a value; returns "" when it is right, else what was expected in its place."""

_ESCAPED_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPED_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")


def parse_body(raw: bytes, content_type: str) -> dict[str, Any]:
    """The request's JSON object.

    Raises ValueError for what no provider parses: another content type than JSON, bytes that are
    not UTF-8, invalid JSON (NaN and Infinity among it), half of a surrogate pair, NUL.
    """
    if content_type.split(";")[0].strip().lower() != "application/json":
        raise ValueError(f"Unsupported content type '{content_type}': expected application/json.")
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"The request body is not valid UTF-8: {error.reason}.") from error
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The request body is not valid JSON: {error}") from error
    if not isinstance(body, dict):
        raise ValueError("The request body is not a JSON object.")
    if b"\\u0000" in raw and _ESCAPED_NUL.search(raw):
        raise ValueError("The request body is not valid: it contains a NUL character.")
    if _ESCAPED_SURROGATE.search(raw) and not _encodable(body):
        raise ValueError("The request body is not valid JSON: no low surrogate in string.")
    return body


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON.")


def _encodable(body: object) -> bool:
    try:
        json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def anything(_value: object) -> str:
    return ""


def string(value: object) -> str:
    return "" if isinstance(value, str) else "a string"


def filled(value: object) -> str:
    return "" if isinstance(value, str) and value else "a non-empty string"


def boolean(value: object) -> str:
    return "" if isinstance(value, bool) else "a boolean"


def mapping(value: object) -> str:
    return "" if isinstance(value, dict) else "an object"


def array(value: object) -> str:
    return "" if isinstance(value, list) else "an array"


def filled_array(value: object) -> str:
    return "" if isinstance(value, list) and value else "an array with at least one item"


def strings(value: object) -> str:
    right = isinstance(value, list) and all(isinstance(item, str) for item in value)
    return "" if right else "an array of strings"


def base64_data(value: object) -> str:
    """Bare base64, without the head of a data URL."""
    try:
        right = isinstance(value, str) and bool(base64.b64decode(value, validate=True))
    except ValueError:
        right = False
    return "" if right else "valid base64 data"


def null(value: object) -> str:
    return "" if value is None else "null"


def integer(low: int, high: int | None = None) -> Check:
    """An integer within bounds; a boolean is none."""
    expected = f"an integer >= {low}" if high is None else f"an integer from {low} to {high}"

    def check(value: object) -> str:
        if not isinstance(value, int) or isinstance(value, bool):
            return expected
        return "" if value >= low and (high is None or value <= high) else expected

    return check


def number(low: float, high: float) -> Check:
    """A number within bounds; a boolean is none."""
    expected = f"a number from {low} to {high}"

    def check(value: object) -> str:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return expected
        return "" if low <= value <= high else expected

    return check


def one_of(*values: object) -> Check:
    """One of a few constants."""
    expected = "one of " + ", ".join(json.dumps(value) for value in values)

    def check(value: object) -> str:  # true is not 1 here
        right = any(value == known and type(value) is type(known) for known in values)
        return "" if right else expected

    return check


def matching(pattern: str) -> Check:
    """A string that matches as a whole."""
    compiled = re.compile(pattern)
    expected = f"a string that matches the pattern '{pattern}'"
    return lambda value: "" if isinstance(value, str) and compiled.fullmatch(value) else expected


def either(*checks: Check) -> Check:
    """Right for any one of the checks."""

    def check(value: object) -> str:
        expected = [each(value) for each in checks]
        return "" if "" in expected else " or ".join(expected)

    return check


def nullable(check: Check) -> Check:
    """Right, or null."""
    return lambda value: "" if value is None else check(value)


@dataclass(frozen=True)
class Shape:
    """The fields of an object: those it must have, those it may have, and no others."""

    required: Mapping[str, Check]
    optional: Mapping[str, Check] = field(default_factory=dict)


@dataclass(frozen=True)
class Wording:
    """How one provider names a place in the body and says what is wrong there."""

    item: str
    unknown: str
    missing: str
    invalid: str

    def at(self, where: str, key: str) -> str:
        """The place of a field."""
        return f"{where}.{key}" if where else key

    def items(self, values: list[Any], where: str) -> Iterator[tuple[str, Any]]:
        """Each item with its place."""
        for index, value in enumerate(values):
            yield where + self.item.format(index), value

    def wrong(self, where: str, expected: str) -> str:
        """A value that is not what was expected."""
        return self.invalid.format(where=where, expected=expected)

    def faults(self, value: object, where: str, shape: Shape) -> Iterator[str]:
        """What keeps `value` from being an object of this shape: it is no object, a field is
        missing, unknown, or of the wrong type."""
        if not isinstance(value, dict):
            yield self.wrong(where, "an object")
            return
        for key in shape.required:
            if key not in value:
                yield self.missing.format(where=self.at(where, key))
        for key, item in value.items():
            check = shape.required.get(key) or shape.optional.get(key)
            if check is None:
                yield self.unknown.format(where=self.at(where, key))
            elif expected := check(item):
                yield self.wrong(self.at(where, key), expected)

    def tagged(
        self, value: object, where: str, shapes: Mapping[str, Shape], tag: str = "type"
    ) -> Iterator[str]:
        """The faults of an object whose `tag` field says which shape it has."""
        if not isinstance(value, dict):
            yield self.wrong(where, "an object")
        elif tag not in value:
            yield self.missing.format(where=self.at(where, tag))
        elif not isinstance(value[tag], str) or value[tag] not in shapes:
            yield self.wrong(self.at(where, tag), one_of(*shapes)(None))
        else:
            yield from self.faults(value, where, shapes[value[tag]])


OPENAI = Wording(
    item="[{}]",
    unknown="Unknown parameter: '{where}'.",
    missing="Missing required parameter: '{where}'.",
    invalid="Invalid '{where}': expected {expected}.",
)
ANTHROPIC = Wording(
    item=".{}",
    unknown="{where}: Extra inputs are not permitted",
    missing="{where}: Field required",
    invalid="{where}: Input should be {expected}",
)
