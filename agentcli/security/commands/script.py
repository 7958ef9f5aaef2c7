"""The parts of a shell script as plain values, as far as they are known before it runs, and the
folder in which its commands run, from one `cd` to the next."""

from __future__ import annotations

import os.path
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

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


Place = tuple[str | None, tuple[str, ...]]
"""Where a command runs: SimpleCommand's `cwd` and `moves`."""
MOVING = (("cd",), ("pushd",), ("popd",))
_MOST_MOVES = 16
_UNKNOWN_WORD = "$(cd)"
UNKNOWN_PLACE: Place = (None, (_UNKNOWN_WORD,))


def moved(place: Place, words: Words, unknown: tuple[str, ...]) -> Place:
    """Return where a command of these words that changes the folder leads from `place`."""
    operands = [w for w in words[1:] if w is None or not w.startswith("-") or w == "-"]
    folder, moves = place
    if words == ("cd",):
        return "~", ()
    # -P resolves links before `..`, and -e and -@ come only with it.
    physical = any(word and re.fullmatch(r"-[LPe@]*[Pe@][LPe@]*", word) for word in words[1:])
    if len(operands) != 1 or words[0] == "popd" or physical:
        return UNKNOWN_PLACE
    target = operands[0]
    if target == "-":
        return UNKNOWN_PLACE if folder or moves else (None, ('"$OLDPWD"',))
    if target is None:
        written = unknown[0] if len(unknown) == 1 else _UNKNOWN_WORD
        before = moves or ((shlex.quote(folder),) if folder else ())
        return (None, (*before, written)) if len(moves) < _MOST_MOVES else UNKNOWN_PLACE
    if target.startswith("~"):
        return target, ()
    if moves and not target.startswith("/"):
        return (None, (*moves, shlex.quote(target))) if len(moves) < _MOST_MOVES else UNKNOWN_PLACE
    return os.path.normpath(Path(folder or "") / target) if target else folder, ()


def either(one: Place, other: Place) -> Place:
    """Return a place that is one of two."""
    if one[1] or other[1]:
        return UNKNOWN_PLACE
    first, second = (shlex.quote(folder or ".") for folder, _ in (one, other))
    return None, (f"{{{first},{second}}}",)
