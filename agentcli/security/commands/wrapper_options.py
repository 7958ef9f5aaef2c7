"""Finds where the command run by another one begins: after its options, as listed in
wrapper_options.toml."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentcli.security.commands.script import Words


@dataclass(frozen=True)
class Options:
    """A row of the table, which explains the fields."""

    short: str = ""
    long: str = ""
    operands: int = 0
    numeric: bool = False

    def words_taken(self, word: str) -> int | None:
        """Return how many words the option `word` takes, including itself; None if unknown."""
        if word.startswith("--"):
            name, equals, _ = word[2:].partition("=")
            names = self.long.split()
            if f"{name}=" in names:
                return 1 if equals else 2
            return 1 if name in names and (not equals or name == "preserve-env") else None
        if self.numeric and word[1:].isdigit():
            return 1
        for at, letter in enumerate(word[1:], 1):
            if f"{letter}:" in self.short:
                return 2 if at == len(word) - 1 else 1
            if letter == ":" or letter not in self.short:
                return None
        return 1


@functools.cache
def wrapper_options() -> Mapping[str, Options]:
    """Return the rows by the wrapper's name. The first script to be judged loads them, in
    1.5 ms."""
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    return {name: Options(**row) for name, row in rows.items()}


def after_options(words: Words, options: Options) -> int | None:
    """Return where a wrapper's command begins; None if not all its options are known."""
    at = 1
    while at < len(words):
        word = words[at]
        if word is None:
            return None
        if word == "--":
            at += 1
            break
        if not word.startswith("-") or word == "-":
            break
        taken = options.words_taken(word)
        if taken is None or (taken == 2 and words[at + 1 : at + 2] in ((), (None,))):
            return None
        at += taken
    operands = words[at : at + options.operands]
    return None if None in operands or len(operands) < options.operands else at + options.operands
