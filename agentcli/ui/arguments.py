"""Format the arguments of a tool call for people."""

from __future__ import annotations

import json
from collections.abc import Mapping

from agentcli.events.json_text import json_object


def argument_line(arguments: Mapping[str, object]) -> str:
    """Return the value of a single argument, or else `name: value, name: value`."""
    if len(arguments) == 1:
        return _text(next(iter(arguments.values())))
    return ", ".join(f"{name}: {_text(value)}" for name, value in arguments.items())


def argument_rows(arguments: Mapping[str, object]) -> list[str]:
    """Return a row for each argument, with the lines of a longer text indented below its name."""
    rows: list[str] = []
    for name, value in arguments.items():
        first, *others = _text(value).split("\n")
        if others:
            rows += [f"{name}:", *(f"  {line}" for line in (first, *others))]
        else:
            rows.append(f"{name}: {first}")
    return rows


def raw_argument_rows(raw: str) -> list[str]:
    """Return the rows of arguments that a model wrote; its text if that is no JSON object."""
    return argument_rows(json_object(raw) or {}) or raw.split("\n")


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
