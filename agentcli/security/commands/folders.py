"""Follows the folder in which the commands of a script run, from one `cd` to the next."""

from __future__ import annotations

import os.path
import re
import shlex
from pathlib import Path

from agentcli.security.commands.script import Words

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
