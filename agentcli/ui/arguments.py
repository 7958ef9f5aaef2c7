"""Arguments of a tool call as people would write them."""

from __future__ import annotations

import json
from collections.abc import Mapping


def given_arguments(raw: str) -> Mapping[str, object]:
    """What a model wrote as arguments; none where that is no JSON object."""
    try:
        given = json.loads(raw or "{}")
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def argument_line(arguments: Mapping[str, object]) -> str:
    """Of a single argument its value, else `name: value, name: value`."""
    if len(arguments) == 1:
        return _text(next(iter(arguments.values())))
    return ", ".join(f"{name}: {_text(value)}" for name, value in arguments.items())


def argument_rows(arguments: Mapping[str, object]) -> list[str]:
    """A row for each argument, the lines of a longer text indented below its name."""
    rows: list[str] = []
    for name, value in arguments.items():
        first, *others = _text(value).split("\n")
        if others:
            rows += [f"{name}:", *(f"  {line}" for line in (first, *others))]
        else:
            rows.append(f"{name}: {first}")
    return rows


def raw_argument_rows(raw: str) -> list[str]:
    """The same of what a model wrote; as it is where that is no JSON object."""
    return argument_rows(given_arguments(raw)) or raw.split("\n")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
