"""Checks whether an uncontained command names what is hidden; a sandbox would hide it anyway."""

from __future__ import annotations

import os
from pathlib import Path

from agentcli.files.access_scope import AccessScope
from agentcli.security.commands.script import Script, SimpleCommand
from agentcli.security.commands.shell_paths import Expander

_SEARCHES_BELOW = (("grep",), ("rg",), ("egrep",), ("fgrep",))


def names_hidden(script: Script, scope: AccessScope, start: str) -> bool:
    """Return whether a part of `script`, run in `start`, names a hidden file or searches a folder
    above one. Homes of other users count as hidden, and so do places that can't be resolved."""
    expander = Expander(start, str(scope.home))
    return any(_leads_to_hidden(scope, part, expander.at(part.cwd)) for part in script.commands)


def _leads_to_hidden(scope: AccessScope, part: SimpleCommand, here: Expander) -> bool:
    known = [word for word in part.words[1:] if word]
    known += [redirect.target for redirect in part.redirects if redirect.target]
    texts = {text for word in known for text in (word, word.partition("=")[2])} - {""}
    if any(text[0] == "~" and text[1:2] not in ("", "/") for text in (*texts, *part.unknown)):
        return True
    named = [place for text in texts for place in here.literal(text).places]
    matching = [place for target in here.targets(None, part.unknown) for place in target.places]
    searched = [*matching, *(named if part.words[:1] in _SEARCHES_BELOW else ())]
    return any(_is_hidden(place, scope) for place in named + matching) or any(
        hidden.is_relative_to(place) for place in searched for hidden in scope.hidden
    )


def _is_hidden(place: Path, scope: AccessScope) -> bool:
    try:
        os.path.realpath(place)
    except OSError:
        # It leads through a link that only its owner may read, as in other processes' folders.
        return True
    return not scope.may_read(place)
