"""Commands for which known_commands.toml lists what may follow their first words."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentcli.security.commands.script import Words
from agentcli.security.commands.wrappers import bare_words

_TABLE = Path(__file__).with_suffix(".toml")
_NAME = re.compile(r"(?![-/~@])[\w./:@+-]+")
_INSIDE = r"(?![/~@])(?!(?:.*/)?\.\.(?:/|$))(?!\w+://).*"
ANY_NAME = "*"


@dataclass(frozen=True)
class KnownCommand:
    """A row of the table. Each word after `words` must match one of the `options` completely or, if
    it does not begin with a dash, one of the `operands`. `rest`: what follows a lone -- is for the
    project's own program. `offered`: suggest it as a rule to save."""

    words: tuple[str, ...]
    options: re.Pattern[str]
    operands: re.Pattern[str]
    rest: bool
    offered: bool

    def begins(self, words: Words) -> bool:
        if len(words) < len(self.words):
            return False
        return all(
            word is not None and (bool(_NAME.fullmatch(word)) if want == ANY_NAME else word == want)
            for word, want in zip(words, self.words, strict=False)
        )

    def first_unknown_word(self, words: Words, given: int) -> str | None:
        """Return the first word that this row does not cover, so that it may change what the
        command does; None if every word is covered. The first `given` words are not checked,
        because a rule names them."""
        for word in words[max(given, len(self.words)) :]:
            if word == "--" and self.rest:
                return None
            if word is None or not self._follows(word):
                return word or "?"
        return None

    def _follows(self, word: str) -> bool:
        if self.options.fullmatch(word):
            return True
        return not word.startswith("-") and bool(self.operands.fullmatch(word))


def known_command(words: Words) -> KnownCommand | None:
    """Return the row for a command called by its bare name or from a system folder."""
    bare = bare_words(words)
    rows = _table().get(bare[0] or "", ()) if bare else ()
    return next((row for row in rows if row.begins(bare)), None)


@functools.cache
def _table() -> Mapping[str, tuple[KnownCommand, ...]]:
    """Return the rows by program name, those with the most words first."""
    rows: dict[str, list[KnownCommand]] = {}
    for entry in tomllib.loads(_TABLE.read_text("utf-8"))["command"]:
        options = re.compile("|".join(entry["options"].split()), re.DOTALL)
        operands = re.compile(entry.get("operands", _INSIDE), re.DOTALL)
        rest, offered = entry.get("rest", False), entry.get("offer", True)
        for text in entry["words"]:
            words = tuple(text.split())
            row = KnownCommand(words, options, operands, rest, offered)
            rows.setdefault(words[0], []).append(row)
    return {
        name: tuple(sorted(found, key=lambda row: len(row.words), reverse=True))
        for name, found in rows.items()
    }
