"""Where secrets are kept: the usual places, and those that variables name instead.

`secret_places.txt` lists them. Its sources are firejail's `disable-common.inc`,
`disable-programs.inc` and `disable-passwdmgr.inc`, and what programs document about their
variables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentcli.sandbox.word_lists import read_words

_BASES = {
    ".config": "XDG_CONFIG_HOME",
    ".local/share": "XDG_DATA_HOME",
    ".local/state": "XDG_STATE_HOME",
    ".cache": "XDG_CACHE_HOME",
}
_A_PATH = re.compile(r"/[^\0-\x1f\"{}<>|]{1,1000}")
_NEVER = ("/dev/", "/proc/", "/sys/")
"""Nothing is kept here: a variable set to such a path (/dev/null) means that there is no file."""


def secret_places(home: str, environ: Mapping[str, str], workspace: str) -> Iterator[Path]:
    """Yield the resolved places, including missing ones, which may appear later. Relative values of
    variables are resolved in `workspace`."""
    resolve = _Resolver()
    for place in dict.fromkeys(_places(home, environ, workspace)):
        yield Path(resolve(place))


class _Resolver:
    """Like `os.path.realpath`, but scans each folder only once, as most hold several places."""

    def __init__(self) -> None:
        self._folders: dict[str, tuple[str, frozenset[str]]] = {"": ("", _links("/"))}
        """For each folder: its real path and the names of the symlinks in it."""

    def __call__(self, place: str) -> str:
        folder, _, name = place.rpartition("/")
        if folder not in self._folders:
            real = self(folder)
            self._folders[folder] = real, _links(real)
        real, links = self._folders[folder]
        return os.path.realpath(place) if name in links else f"{real}/{name}"


def _links(folder: str) -> frozenset[str]:
    try:
        with os.scandir(folder) as entries:
            return frozenset(entry.name for entry in entries if entry.is_symlink())
    except (OSError, ValueError):
        return frozenset()


def _places(home: str, environ: Mapping[str, str], workspace: str) -> Iterator[str]:
    moved = {
        base: os.path.normpath(folder)
        for base, name in _BASES.items()
        if (folder := environ.get(name, "")).startswith("/") and folder != f"{home}/{base}"
    }
    for word in read_words("secret_places"):
        if word.startswith("$"):
            name, _, rest = word[1:].partition("/")
            yield from _named(environ.get(name, ""), rest, home, workspace)
        elif word.startswith("/"):
            yield word
        else:
            yield f"{home}/{word}"
            for base, folder in moved.items():
                if word.startswith(f"{base}/"):
                    yield folder + word[len(base) :]


def _named(value: str, rest: str, home: str, workspace: str) -> Iterator[str]:
    """Yield the places in the value of a variable: one, or several separated by colons."""
    for part in value.split(":") if value else ():
        place = f"{part}/{rest}" if rest else part
        place = home + place[1:] if place.startswith("~/") else place
        if not place.startswith("/"):
            place = f"{workspace}/{place}"
            if not os.path.lexists(place):
                continue
        place = os.path.normpath(place)
        # Hiding the whole home or system because a value names it would break all work.
        broad = place.count("/") < 2 or f"{home}/".startswith(f"{place}/")
        if _A_PATH.fullmatch(place) and not broad and not f"{place}/".startswith(_NEVER):
            yield place
