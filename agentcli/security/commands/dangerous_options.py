"""Words that make a command do more harm than its name suggests, from dangerous_options.toml."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.security.commands.known_commands import known_command
from agentcli.security.commands.script import Words
from agentcli.security.commands.wrappers import bare_words

_TABLE = Path(__file__).with_suffix(".toml")
_SHORTEST = len("--f")
"""Programs accept a prefix of a long option from this length on."""


@dataclass(frozen=True)
class Danger:
    """A row of the table."""

    words: tuple[str, ...]
    options: tuple[str, ...]
    operands: re.Pattern[str]
    whole: bool
    before: bool
    why: str
    sources: tuple[str, ...]

    def includes(self, word: str) -> bool:
        if not word.startswith("-") or word == "-":
            return bool(self.operands.fullmatch(word))
        return any(_is_option(word, option) for option in self.options)


@dataclass(frozen=True)
class Found:
    """A word of a command, and what it does that a rule must name: `why` fits after "which"."""

    word: str
    why: str


def danger_beyond(words: Words, given: int) -> Found | None:
    """Return the first word of a command that makes it more dangerous and is not among the first
    `given` words, which a rule names. The command must be called by its bare name or from a system
    folder. A word known to be harmless does not count as an abbreviation of a dangerous one."""
    bare = bare_words(words)
    for row in dangers().get(bare[0] or "", ()) if bare else ():
        places = _places(bare, row.words)
        if places is None:
            continue
        if row.whole:
            if places[-1] >= given:
                return Found(" ".join(row.words), row.why)
            continue
        end = max(next_words(bare, 1), default=len(bare)) if row.before else _end(bare)
        for at in range(max(1, given), end):
            word = bare[at]
            if at not in places and word is not None and row.includes(word):
                if _is_harmless(bare, word, row):
                    continue
                return Found(word, row.why)
    return None


def next_words(words: Words, at: int) -> Iterator[int]:
    """Yield where the next word of a command may be, skipping options from `at` on. What follows an
    option may be its value or that word; only the program knows which."""
    follows_option = False
    while at < len(words):
        word = words[at]
        if word is not None and word.startswith("-"):
            follows_option = "=" not in word
        else:
            yield at
            if not follows_option:
                return
            follows_option = False
        at += 1


def _end(words: Words) -> int:
    """Return where the command's own options end, because the rest goes to the project's
    program."""
    known = known_command(words)
    return words.index("--") if known is not None and known.rest and "--" in words else len(words)


def _places(words: Words, wanted: Sequence[str]) -> tuple[int, ...] | None:
    """Return where the words of a row are in `words`, with only options and their values between
    them; None if they are not there."""
    places: tuple[int, ...] = (0,)
    for want in wanted[1:]:
        # The first place is enough: what may follow a later one may follow this one too.
        found = (at for at in next_words(words, places[-1] + 1) if words[at] == want)
        place = next(found, None)
        if place is None:
            return None
        places += (place,)
    return places


def _is_option(word: str, option: str) -> bool:
    if option.startswith("--"):
        if "=" in option:
            return word == option
        name = word.partition("=")[0]
        return name == option or (len(name) >= _SHORTEST and option.startswith(name))
    # Short options can be bundled, and a value may follow without a space.
    return not word.startswith("--") and option[1] in word[1:].partition("=")[0]


def _is_harmless(words: Words, word: str, row: Danger) -> bool:
    """Return whether `word` is a separate option that only begins like a dangerous one."""
    if word.partition("=")[0] in row.options or not word.startswith("--"):
        return False
    known = known_command(words)
    return known is not None and bool(known.options.fullmatch(word))


@functools.cache
def dangers() -> Mapping[str, tuple[Danger, ...]]:
    """Return the rows of the table by program name."""
    rows: dict[str, list[Danger]] = {}
    for entry in tomllib.loads(_TABLE.read_text("utf-8"))["danger"]:
        for text in entry["words"]:
            row = Danger(
                words=tuple(text.split()),
                options=tuple(entry.get("options", "").split()),
                operands=re.compile(entry.get("operands", "(?!)"), re.DOTALL),
                whole=entry.get("whole", False),
                before=entry.get("before", False),
                why=entry["why"],
                sources=tuple(entry["source"].split()),
            )
            rows.setdefault(row.words[0], []).append(row)
    return {name: tuple(found) for name, found in rows.items()}
