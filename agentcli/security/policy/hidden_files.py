"""Checks whether an uncontained command names what is hidden; a sandbox would hide it anyway."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from agentcli.security.commands.script import Script, SimpleCommand
from agentcli.security.commands.shell_paths import Expander, Target
from agentcli.workspace.guard import looks_secret
from agentcli.workspace.scope import AccessScope

_SEARCH_BELOW = frozenset(("grep", "egrep", "fgrep", "rg", "diff"))
"""Commands that show the content of the files below a folder that they are given."""
_SHOW_NO_CONTENT = frozenset(
    (
        *("[", "basename", "cd", "df", "dirname", "du", "echo", "file", "find", "ls", "printf"),
        *("readlink", "realpath", "stat", "test", "tree", "whereis", "which"),
    )
)
_RECURSIVE = re.compile(r"-[^-efmABCdD]*[rR].*|--r.*|--der.*|--dir.*|-d.*")
"""Options with which grep searches folders, without any name the one it is started in."""
_PATTERN_GIVEN = re.compile(r"-[^-mABCdDgtTjrEM]*[ef].*|--(?:regexp|file).*")
_OF_A_PROCESS = re.compile(r"/proc/(?:\d+|self|thread-self|kcore|kmsg)(?:/(?P<inside>.*))?", re.S)
_FACTS = frozenset(
    ("cgroup", "comm", "io", "limits", "mountinfo", "mounts", "stat", "statm", "status")
)
"""Files of a process that show neither its environment nor its memory, files or arguments."""
_PROCESSES = Path("/proc")
_UP_AFTER_GLOB = re.compile(r".*[*?[].*/\.\.(?:/.*)?", re.S)
_MOST_ENTRIES = 50_000
"""Entries of folders that are compared with a pattern."""


def names_hidden(script: Script, scope: AccessScope, start: str) -> bool:
    """Return whether a part of `script`, run in `start`, names a hidden file or searches a folder
    above one. Homes of other users count as hidden, and so do what processes keep in /proc, places
    that can't be resolved, and whatever is in a folder that is not known."""
    expander = Expander(start, str(scope.home))
    return any(
        here.cwd is None or _leads_to_hidden(scope, part, here)
        for part in script.commands
        for here in expander.around(part)
    )


def shows_secret(part: SimpleCommand, scope: AccessScope, start: str) -> bool:
    """Return whether a part of a script that was started in `start` may show a file that looks like
    a secret and was not given to the session."""
    expander = Expander(start, str(scope.home))
    return part.name not in _SHOW_NO_CONTENT and any(
        not scope.is_given(place) and bool(looks_secret(str(place), scope.home))
        for here in expander.around(part)
        for place in (*_named(part, here), *_matching(part, here, scope))
    )


def may_run_elsewhere(part: SimpleCommand, scope: AccessScope, start: str) -> bool:
    """Return whether a part that shows content may run in another folder than its words say, as a
    `cd` before it fails if there is no such folder."""
    if part.name in _SHOW_NO_CONTENT or not (part.cwd or part.moves):
        return False
    folders = (here.cwd for here in Expander(start, str(scope.home)).around(part))
    return not all(
        folder and Path(folder).is_dir() and os.access(folder, os.X_OK) for folder in folders
    )


def _texts(part: SimpleCommand) -> set[str]:
    """Return the known words that may be paths."""
    known = [word for word in part.words[1:] if word]
    known += [redirect.target for redirect in part.redirects if redirect.target]
    return {text for word in known for text in (word, word.partition("=")[2])} - {""}


def _attached(part: SimpleCommand) -> Iterator[str]:
    """Yield what may be a path at the end of a word of short options (-fFILE, -nfFILE)."""
    for word in part.words[1:]:
        if word and word.startswith("-") and not word.startswith("--"):
            yield from (word[at:] for at in range(2, len(word)))


def _named(part: SimpleCommand, here: Expander) -> list[Path]:
    texts = (*_texts(part), *_attached(part))
    return [place for text in texts for place in here.literal(text).places]


def _matching(part: SimpleCommand, here: Expander, scope: AccessScope) -> Iterator[Path]:
    for target in here.targets(None, part.unknown):
        yield from _matches(target, scope) or ()


def _leads_to_hidden(scope: AccessScope, part: SimpleCommand, here: Expander) -> bool:
    words = (*_texts(part), *part.unknown)
    if any(text[0] == "~" and text[1:2] not in ("", "/") for text in words):
        return True
    named = _named(part, here)
    patterns = here.targets(None, part.unknown)
    if any(_matches(target, scope) is None for target in patterns):
        return True
    searched = [place for target in patterns for place in target.places]
    if part.name in _SEARCH_BELOW or (part.name == "git" and "diff" in part.words):
        searched += named
        if _searches_its_folder(part, here):
            searched.append(Path(os.path.realpath(here.cwd or "/")))
    return any(_is_hidden(place, scope) for place in (*named, *searched)) or any(
        hidden.is_relative_to(place) for place in searched for hidden in (*scope.hidden, _PROCESSES)
    )


def _searches_its_folder(part: SimpleCommand, here: Expander) -> bool:
    """Return whether it may search the folder that it is started in, as it names no other."""
    words = [word for word in part.words[1:] if word]
    if part.name == "diff" or (part.name != "rg" and not any(map(_RECURSIVE.fullmatch, words))):
        return False
    if any(map(_PATTERN_GIVEN.fullmatch, words)):
        return True
    return not any(
        place.exists()
        for word in words
        if not word.startswith("-")
        for place in here.literal(word).places
    )


def _matches(target: Target, scope: AccessScope) -> list[Path] | None:
    """Return what matches a pattern now; None if anything on the way may be hidden, through links
    too."""
    if target.pattern and (target.within(_PROCESSES) or _UP_AFTER_GLOB.fullmatch(target.written)):
        return None
    found = [*target.places]
    left = _MOST_ENTRIES
    for glob in target.pattern:
        inner: list[Path] = []
        for folder in found:
            for entry in _entries(folder):
                left -= 1
                if left < 0:
                    return None
                if fnmatchcase(entry.name, glob):
                    place = folder / entry.name
                    inner.append(_resolved(place) if entry.is_symlink() else place)
        if any(_is_hidden(place, scope) for place in inner):
            return None
        found = inner
    return found


def _entries(folder: Path) -> Iterator[os.DirEntry[str]]:
    # What is no folder, or can't be listed, matches nothing.
    with contextlib.suppress(OSError), os.scandir(folder) as scan:
        yield from scan


def _resolved(place: Path) -> Path:
    # One that can't be resolved is hidden by its name; see `_is_hidden`.
    with contextlib.suppress(OSError):
        return Path(os.path.realpath(place))
    return place


def _is_hidden(place: Path, scope: AccessScope) -> bool:
    try:
        os.path.realpath(place)
    except OSError:
        # It leads through a link that only its owner may read, as in other processes' folders.
        return True
    process = _OF_A_PROCESS.fullmatch(str(place))
    if process is not None and process["inside"] not in _FACTS:
        return True
    return not scope.may_read(place)
