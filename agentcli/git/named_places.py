"""Finds what git's settings name in places that commands can write: hooks, more settings, programs.

The settings are those of the repository and the user. Conditional ones count too, whether or not
their condition is met today.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.files.private import read_private
from agentcli.git.config_files import mentions_places, named_by_settings, parse
from agentcli.system.homes import user_home

_MOST_FILES = 50
_LARGEST_FILE = 262_144


@dataclass
class NamedPlaces:
    """`protected` must stay as they are, existing or not; `problems` says what can't be
    protected."""

    protected: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def named_places(
    root: Path, settings: Iterable[Path], environ: Mapping[str, str], writable: Sequence[Path]
) -> NamedPlaces:
    """Return the places named in the repository's files of `settings` and those of the user, as
    git reads them in the folder `root`."""
    home = user_home(environ)
    return _Search(root, home, writable).among([*settings, *_files_of_the_user(home, environ)])


class _Search:
    def __init__(self, root: Path, home: Path, writable: Sequence[Path]) -> None:
        self._root = root
        self._home = home
        self._writable = writable
        self._places = NamedPlaces()

    def among(self, files: Sequence[Path]) -> NamedPlaces:
        waiting = list(files)
        seen: set[Path] = set()
        while waiting and len(seen) < _MOST_FILES:
            file = waiting.pop(0)
            if file in seen:
                continue
            seen.add(file)
            data = read_private(file, _LARGEST_FILE, follow=True) or b""
            if mentions_places(data):
                waiting += self._take(file, data)
        return self._places

    def _take(self, file: Path, data: bytes) -> Iterator[Path]:
        """Note what a file names; yield the further files of settings among it."""
        found = named_by_settings(parse(data) or ())
        for name in found.files:
            place = self._resolved(name, file.resolve().parent)
            if place is not None:
                self._protect(place, name)
                yield place
        for name in found.hooks:
            place = self._resolved(name, self._root)
            if place is not None:
                self._protect(place, name)
        for word in found.words:
            place = self._resolved(word.partition("=")[2] or word, self._root)
            if place is not None and place.is_file():
                self._protect(place, word)

    def _protect(self, place: Path, name: str) -> None:
        if not any(place.is_relative_to(folder) for folder in self._writable):
            return
        if any(folder.is_relative_to(place) for folder in self._writable):
            self._places.problems.append(
                f"git's settings name {name}, a folder that commands can write to: what git runs "
                "or reads there can't be protected"
            )
        elif place not in self._places.protected:
            self._places.protected.append(place)

    def _resolved(self, text: str, base: Path) -> Path | None:
        if text.startswith("~/"):
            text = f"{self._home}{text[1:]}"
        if text.startswith(("~", "%(", "-")) or "\0" in text:
            return None
        try:
            return Path(os.path.realpath(base / text))
        except OSError:
            return None


def _files_of_the_user(home: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    if named_file := environ.get("GIT_CONFIG_GLOBAL"):
        yield Path(named_file)
    else:
        yield home / ".gitconfig"
        yield Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "git/config"
    yield Path(environ.get("GIT_CONFIG_SYSTEM") or "/etc/gitconfig")
