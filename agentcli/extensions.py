"""Extension points: each is one kind of part that takes a single file to add, ours or a third
party's.

Our own parts are modules of one package, each with a constant named after the kind (`TOOL`,
`PROVIDER`, `PROTOCOL`, `CONDENSER`, `EXPORTER`, `COMMAND`, `SLASH_COMMANDS`); a tuple or a table
holds several that are one subject. A third-party package registers its parts as entry points in the
group of the kind (`agentcli.tools`, `agentcli.providers`, …), under the part's name: see
docs/extending.md.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class ExtensionWarning(UserWarning):
    """A part of a third-party package is left out; everything else works."""


@dataclass(frozen=True)
class ExtensionPoint(Generic[T]):
    """All parts of one kind. A part has the name of its file, or of its entry point."""

    package: str
    constant: str
    group: str
    kind: type[T]
    dashed: bool = False
    """Whether `_` in the name of a file becomes `-` in the name of its part."""
    tables: bool = False
    """Whether the constant of a file of ours is a table of parts by name."""

    def file_names(self) -> list[str]:
        """Return the names that the modules of the package give to parts. Imports none of them, so
        some may turn out to define no part."""
        path = getattr(importlib.import_module(self.package), "__path__", [])
        files = sorted(module.name for module in pkgutil.iter_modules(path))
        return [file.replace("_", "-") for file in files] if self.dashed else files

    def outside_names(self) -> list[str]:
        """Return the names of parts that third-party packages register, without importing them."""
        return sorted(entry.name for _, entry in self._entry_points())

    def get(self, name: str) -> T | None:
        """Return the part of this name that has a file of its own, or is outside; no other part is
        imported."""
        if name in self.file_names():
            own = self._built_in(name)
            if name in own or not own:
                return own.get(name)
        entered = self._entry_points()
        named = (self._load(package, entry) for package, entry in entered if entry.name == name)
        return next((part for part in named if part is not None), None)

    def all(self) -> dict[str, T]:
        """Return every part by name, ours first. A third-party part that can't be loaded, or whose
        name is taken, is left out with a warning."""
        files = self.file_names()
        parts = {name: self._built_in(name) for name in files}
        ours = {name: part for own in parts.values() for name, part in own.items()}
        found = dict(sorted(ours.items()))
        empty = [name for name, own in parts.items() if not own]
        for package, entry in self._entry_points():
            if entry.name in (*empty, *found):
                _leave_out(package, entry, "that name is taken")
            elif (part := self._load(package, entry)) is not None:
                found[entry.name] = part
        return found

    def _built_in(self, name: str) -> dict[str, T]:
        """Return the parts that a file defines, by name: one named like the file, or several."""
        file = name.replace("-", "_") if self.dashed else name
        part: Any = getattr(importlib.import_module(f"{self.package}.{file}"), self.constant, None)
        if self.tables:
            return dict(part or {})
        if isinstance(part, tuple):
            return {each.name: each for each in part}
        return {} if part is None else {name: part}

    def _entry_points(self) -> Iterator[tuple[str, EntryPoint]]:
        """Yield each entry point of this kind with the name of its package."""
        for package, entry in _entry_points(tuple(sys.path)):
            if entry.group == self.group:
                yield package, entry

    def _load(self, package: str, entry: EntryPoint) -> T | None:
        """Return the part behind an entry point, or None, with a warning, if it can't be used."""
        try:
            top = entry.module.partition(".")[0]
            if PathFinder.find_spec(top) is None:
                # Import hooks of editable installs can lead anywhere, even to folders that commands
                # can write.
                raise ImportError(f"{top} is not on the module path")
            part = entry.load()
            if not isinstance(part, self.kind):
                raise TypeError(f"{entry.value} is not a {self.kind.__name__}")
            if (name := getattr(part, "name", entry.name)) != entry.name:
                raise ValueError(f"{entry.value} calls itself {name!r}")
        except (Exception, SystemExit) as error:
            # Whatever a third-party package raises on import, the agent must work without it.
            _leave_out(package, entry, f"{type(error).__name__}: {error}")
            return None
        return part


@cache
def _leave_out(package: str, entry: EntryPoint, reason: str) -> None:
    message = f"{entry.name} of the package {package} ({entry.group}) is left out: {reason}"
    warnings.warn(message, ExtensionWarning, stacklevel=2)


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[tuple[str, EntryPoint], ...]:
    """Return the entry points of third-party packages, each with the name of its package, in the
    order of the module path. If a package is there twice, the first one counts. A package whose
    entry points can't be read is left out with a warning.

    Looks at the files itself: importlib.metadata takes five times as long to read the entry points
    of everything installed, and 45 ms to import."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for folder in path:
        for information in _with_entries(folder):
            from importlib.metadata import Distribution

            # The folder's name is enough: METADATA may be missing or damaged.
            package = Path(information).name.partition("-")[0].replace("_", "-")
            if package in found:
                continue
            found[package] = ()
            try:
                found[package] = tuple(Distribution.at(information).entry_points)
            except (AttributeError, TypeError, ValueError) as error:
                # Which of these a line without "=" raises depends on the version of Python.
                why = f"its entry points can't be read: {type(error).__name__}: {error}"
                message = f"the package {package} is left out: {why}"
                warnings.warn(message, ExtensionWarning, stacklevel=2)
    return tuple((package, entry) for package, entries in found.items() for entry in entries)


def _with_entries(folder: str) -> list[str]:
    """Return the .dist-info folders in `folder` that register something for the agent."""
    if not folder.startswith("/"):
        return []
    try:
        with os.scandir(folder) as entries:
            candidates = [entry.path for entry in entries if entry.name.endswith(".dist-info")]
    except OSError:
        return []
    return sorted(filter(_enters_something, candidates))


def _enters_something(information: str) -> bool:
    try:
        with open(f"{information}/entry_points.txt", "rb") as file:
            return b"[agentcli." in file.read()
    except OSError:
        return False
