"""What a confined session may read besides the workspace: the system, and the languages and tools
that the user has installed at home, as listed in `shown_places.txt`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from agentcli.sandbox.word_lists import read_words

_NOT_COVERED = ("/proc", "/dev", "/sys", "/tmp", "/run")
"""Commands get their own version of these, or there is nothing personal in them."""


def shown_places(home: Path, environ: Mapping[str, str], workspace: Path) -> tuple[Path, ...]:
    """Return the resolved places that exist; never the home folder, the workspace or what contains
    them."""
    found: dict[Path, None] = {}
    words = read_words("shown_places")
    system = {word for word in words if word.startswith("/")}
    for place in _places(words, home, environ, workspace):
        path = Path(os.path.realpath(place))
        broad = home.is_relative_to(path) or workspace.is_relative_to(path)
        if path.exists() and (not broad or place in system):
            found[path] = None
    return tuple(p for p in found if not any(other in found for other in p.parents))


def masked_places(shown: tuple[Path, ...], home: Path) -> tuple[Path, ...]:
    """Return the entries of the root, and the home folder, that are not `shown` as a whole."""
    top = [Path(entry.path) for entry in os.scandir("/") if not entry.is_symlink()]
    covered = [p for p in top if p not in shown and str(p) not in _NOT_COVERED]
    inside = any(home != place and home.is_relative_to(place) for place in covered)
    return (*covered, home) if inside else tuple(covered)


def _places(
    words: Iterable[str], home: Path, environ: Mapping[str, str], workspace: Path
) -> Iterator[str | Path]:
    for word in words:
        if not word.startswith("$"):
            yield word if word.startswith("/") else home / word
            continue
        values = environ.get(word[1:], "").split(os.pathsep)
        yield from (place for place in values if place.startswith("/"))
    for folder in environ.get("PATH", "").split(os.pathsep):
        if folder.startswith("/"):
            yield _root_of_programs(Path(folder), home)
    yield from (sys.prefix, sys.base_prefix)
    for folder in (f"{workspace}/.venv", f"{workspace}/venv", environ.get("VIRTUAL_ENV", "")):
        interpreter = os.path.realpath(f"{folder}/bin/python")
        if folder.startswith("/") and os.access(interpreter, os.X_OK):
            yield Path(interpreter).parents[1]


def _root_of_programs(folder: Path, home: Path) -> Path:
    """Return the root of the installation that a folder of programs belongs to, or the folder
    itself if several installations share it."""
    alone = folder.parent in (home, home / ".local") or folder.name not in ("bin", "sbin", "shims")
    return folder if alone else folder.parent
