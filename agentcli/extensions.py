"""Extension points: a kind of part that is added by one file, ours or an outside package's.

Our own parts are modules of one package, each with a constant of the kind's name (`TOOL`,
`PROVIDER`, `CONDENSER`, `EXPORTER`, `COMMAND`). An outside package enters its parts in the group of
the kind (`agentcli.tools`, `agentcli.providers`, …) of its entry points, under the name that the
part goes by: docs/extending.md.
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
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class ExtensionWarning(UserWarning):
    """A part of an outside package is left out; everything else works."""


@dataclass(frozen=True)
class ExtensionPoint(Generic[T]):
    """Parts of one kind. A part goes by the name of its file, or of its entry point."""

    package: str
    constant: str
    group: str
    kind: type[T]

    def file_names(self) -> list[str]:
        """Modules of the package, by name; nothing is imported, so not all need define a part."""
        path = importlib.import_module(self.package).__path__
        return sorted(module.name for module in pkgutil.iter_modules(path))

    def outside_names(self) -> list[str]:
        """Parts that outside packages enter, by name; nothing is imported."""
        return sorted(entry.name for entry in self._entry_points())

    def get(self, name: str) -> T | None:
        """The part of this name; nothing else is imported."""
        if name in self.file_names():
            return self._built_in(name)
        named = (self._load(entry) for entry in self._entry_points() if entry.name == name)
        return next((part for part in named if part is not None), None)

    def all(self) -> dict[str, T]:
        """Every part by its name, ours first. One from outside that can't be loaded, or whose name
        is taken, is left out with a warning."""
        files = self.file_names()
        found = {name: part for name in files if (part := self._built_in(name)) is not None}
        for entry in self._entry_points():
            if entry.name in (*files, *found):
                _leave_out(entry, "that name is taken")
            elif (part := self._load(entry)) is not None:
                found[entry.name] = part
        return found

    def _built_in(self, file: str) -> T | None:
        return getattr(importlib.import_module(f"{self.package}.{file}"), self.constant, None)

    def _entry_points(self) -> Iterator[EntryPoint]:
        return (each for each in _entry_points(tuple(sys.path)) if each.group == self.group)

    def _load(self, entry: EntryPoint) -> T | None:
        """The part that an outside package entered; None, with a warning, if it can't be used."""
        try:
            top = entry.module.partition(".")[0]
            if PathFinder.find_spec(top) is None:
                # Import hooks of editable installs lead anywhere, also where commands can write.
                raise ImportError(f"{top} is not on the module path")
            part = entry.load()
            if not isinstance(part, self.kind):
                raise TypeError(f"{entry.value} is not a {self.kind.__name__}")
            if (name := getattr(part, "name", entry.name)) != entry.name:
                raise ValueError(f"{entry.value} calls itself {name!r}")
        except (Exception, SystemExit) as error:
            # Whatever an outside package raises when it is imported, the agent works without it.
            _leave_out(entry, f"{type(error).__name__}: {error}")
            return None
        return part


@cache
def _leave_out(entry: EntryPoint, reason: str) -> None:
    package = entry.dist.name if entry.dist else entry.module
    message = f"{entry.name} of the package {package} ({entry.group}) is left out: {reason}"
    warnings.warn(message, ExtensionWarning, stacklevel=2)


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """Of outside packages, in the order of the module path; a package counts where it is first.

    A plain look at files: importlib.metadata takes five times as long to read the entry points
    of all that is installed, and 45 ms to be imported."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for folder in path:
        for information in _with_entries(folder):
            from importlib.metadata import Distribution

            distribution = Distribution.at(information)
            found.setdefault(distribution.name, tuple(distribution.entry_points))
    return tuple(entry for entries in found.values() for entry in entries)


def _with_entries(folder: str) -> list[str]:
    """The .dist-info folders in `folder` that enter something for the agent."""
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
