"""Finds what git's settings name in places that commands can write: hooks, more settings, programs.

The settings are those of the repository and the user. Conditional ones count too, whether or not
their condition is met today.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.git.config_files import mentions_places, named_by_settings, parse
from agentcli.system.homes import user_home
from agentcli.workspace.private import read_private

_MOST_FILES = 50
_LARGEST_FILE = 262_144


@dataclass
class NamedPlaces:
    """`protected` must stay as they are, existing or not; `problems` says what can't be
    protected."""

    protected: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def protect(self, place: Path, name: str, writable: Sequence[Path]) -> None:
        """Add a place that settings call `name`, if it lies in the folders `writable`."""
        if not any(place.is_relative_to(folder) for folder in writable):
            return
        if any(folder.is_relative_to(place) for folder in writable):
            self.problems.append(
                f"git's settings name {name}, a folder that commands can write to: what git runs "
                "or reads there can't be protected"
            )
        elif place not in self.protected:
            self.protected.append(place)


def named_places(
    root: Path, settings: Iterable[Path], environ: Mapping[str, str], writable: Sequence[Path]
) -> NamedPlaces:
    """Return the places named in the repository's files of `settings` and those of the user, as
    git reads them in the folder `root`."""
    home = user_home(environ)
    places = NamedPlaces()
    waiting = [*settings, *_files_of_the_user(home, environ)]
    seen: set[Path] = set()
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop(0)
        data = (read_private(file, _LARGEST_FILE, follow=True) or b"") if file not in seen else b""
        seen.add(file)
        for kind, text in named_by_settings(parse(data) or ()) if mentions_places(data) else ():
            place = _resolved(text, file.resolve().parent if kind == "settings" else root, home)
            if place is None or (kind == "program" and not place.is_file()):
                continue
            places.protect(place, text, writable)
            if kind == "settings":
                waiting.append(place)
    return places


def _resolved(text: str, base: Path, home: Path) -> Path | None:
    if text.startswith("~/"):
        text = f"{home}{text[1:]}"
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
