"""The parts of a shell script as plain values, as far as they are known before it runs."""

from __future__ import annotations

import os.path
from dataclasses import dataclass

Words = tuple[str | None, ...]
"""Unquoted words of a command, its name first; None for a word that is known only when it runs."""


@dataclass(frozen=True)
class Redirect:
    """A redirect. `target` is None if it is known only when the script runs; `raw` is how it is
    written then. For here-documents and here-strings, `target` is "" (they name no file) and `text`
    is their content. `fd` is the number before the operator, "" if there is none."""

    operator: str
    target: str | None
    fd: str = ""
    text: str = ""
    raw: str = ""


@dataclass(frozen=True)
class SimpleCommand:
    """One command that may run."""

    words: Words
    """Its words without its wrappers."""
    written: str
    redirects: tuple[Redirect, ...] = ()
    """Its own and those of the statements around it."""
    assignments: tuple[str, ...] = ()
    """Names of the variables set for it or anywhere in its script."""
    wrappers: tuple[str, ...] = ()
    """Names of the wrappers around it, outermost first."""
    piped_from: SimpleCommand | None = None
    cwd: str | None = None
    """The folder to which a literal `cd` before it changed; None if there was none, or it is not
    known from the words alone."""
    moves: tuple[str, ...] = ()
    """If it is not: the folders changed to, as written, each seen from the one before."""
    levels: tuple[Words, ...] = ()
    """The original words of each wrapper and, last, of the command itself."""
    unknown: tuple[str, ...] = ()
    """The unknown words as written, and those with the {} of find and xargs."""
    globs: bool = False
    """Every unknown word is a pattern of file names, such as *.py."""

    @property
    def name(self) -> str | None:
        """Its name without the folder it is called from; None if there is none, or it is not
        known."""
        first = self.words[0] if self.words else None
        return None if first is None else os.path.split(first)[1]

    @property
    def literal(self) -> bool:
        """Whether every word of every level is known."""
        return all(word is not None for level in self.levels for word in level)


@dataclass(frozen=True)
class Script:
    """All commands of a script, in the order of its text. `unclear` says why the script can't be
    judged whole; "" if everything in it is known. `verified`: two parsers without shared code found
    the same words and commands; only then may a judgement let it run."""

    commands: tuple[SimpleCommand, ...]
    unclear: str = ""
    verified: bool = False
    doubts: tuple[str, ...] = ()
    """All reasons why it is unclear; `unclear` is the first."""
    assigned: tuple[tuple[str, str], ...] = ()
    """The variables set in it, by name and value as written."""
    read: bool = True
    """False if the script is too long or too deeply nested for anything in it to be known."""


_LONGEST_QUOTE = 120


def quoted(reason: str, written: str) -> str:
    """Return `reason` with the part of a command that it is about, unless it mentions that
    already."""
    line = " ".join(written.split())
    if not line or line in reason:
        return reason
    short = line if len(line) <= _LONGEST_QUOTE else f"{line[:_LONGEST_QUOTE]} …"
    return f"{reason} (`{short}`)"
