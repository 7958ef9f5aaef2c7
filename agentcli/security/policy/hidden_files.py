"""Checks whether an uncontained command names what is hidden; a sandbox would hide it anyway."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentcli.files.access_scope import AccessScope
from agentcli.security.commands.script import Script, SimpleCommand
from agentcli.security.commands.shell_words import decode

_SEARCHES_BELOW = ("grep", "rg", "egrep", "fgrep")


def names_hidden(script: Script, scope: AccessScope, start: str) -> bool:
    """Return whether a part of `script`, run in `start`, names a hidden file or searches a folder
    above one. Uncertain places count as hidden."""
    return any(_leads_to_hidden(scope, part, start) for part in script.commands)


def _leads_to_hidden(scope: AccessScope, part: SimpleCommand, start: str) -> bool:
    folder = Path(start) / (part.cwd or "")
    known = [word for word in part.words[1:] if word]
    known += [redirect.target for redirect in part.redirects if redirect.target]
    below = bool(part.words) and part.words[0] in _SEARCHES_BELOW
    texts = {text for word in known for text in (word, word.partition("=")[2])}
    for text in texts - {""}:
        place = _place_of(text, folder, scope)
        if place is None or not scope.may_read(place):
            return True
        if below and _is_above_hidden(place, scope):
            return True
    for glob in _globs(part):
        place = _place_of(re.split(r"[*?[]", glob)[0].rpartition("/")[0] or ".", folder, scope)
        if place is None or not scope.may_read(place) or _is_above_hidden(place, scope):
            return True
    return False


def _place_of(text: str, folder: Path, scope: AccessScope) -> Path | None:
    """Return where a word leads if it is a path; None if that is uncertain."""
    if text == "~" or text.startswith("~/"):
        text = f"{scope.home}{text[1:]}"
    elif text.startswith("~") or "\0" in text:
        return None
    return Path(os.path.realpath(folder / text))


def _is_above_hidden(place: Path, scope: AccessScope) -> bool:
    return any(hidden.is_relative_to(place) for hidden in scope.hidden)


def _globs(part: SimpleCommand) -> list[str]:
    """Return the words of `part` that name files by a glob, without their quotes."""
    return [re.sub(r"[\\\"']", "", w) for w in part.unknown if decode(w).unknown == "glob"]
