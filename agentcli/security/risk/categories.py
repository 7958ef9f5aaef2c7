"""What makes an action risky, from categories.toml. Patterns are compiled on first use, because
compiling all of them takes longer than judging most actions."""

from __future__ import annotations

import functools
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple


class Category(NamedTuple):
    """`reason` completes the sentence "it …"."""

    reason: str
    pattern: re.Pattern[str]


@functools.cache
def commands() -> tuple[Category, ...]:
    """Return the categories that match at the start of a command."""
    return tuple(
        Category(row["reason"], _compiled([f"(?:{text})(?= |$)" for text in row["commands"]]))
        for row in _table()["category"]
    )


@functools.cache
def code() -> tuple[Category, ...]:
    """Return the categories to search for in code of other languages; the first one is about
    databases."""
    return tuple(Category(row["reason"], _compiled(row["pattern"])) for row in _table()["code"])


@functools.cache
def pattern(name: str) -> re.Pattern[str]:
    return _compiled(_table()["patterns"][name])


@functools.cache
def names(name: str) -> frozenset[str]:
    return frozenset(_table()["names"][name].split())


@functools.cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def _compiled(text: str | list[str]) -> re.Pattern[str]:
    joined = text if isinstance(text, str) else "|".join(text)
    terms = _table()["terms"]
    whole = re.sub(r"<([a-z-]+)>", lambda found: str(terms[found[1]]), joined)
    return re.compile(re.sub(r"\n\s*", "", whole))
