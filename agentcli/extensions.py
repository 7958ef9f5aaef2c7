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
from pathlib import Path
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
    dashed: bool = False
    """`_` in the name of a file is `-` in the name of its part."""

    def file_names(self) -> list[str]:
        """Parts that modules of the package stand for, by name; nothing is imported, so not all
        need define one."""
        path = importlib.import_module(self.package).__path__
        files = sorted(module.name for module in pkgutil.iter_modules(path))
        return [file.replace("_", "-") for file in files] if self.dashed else files

    def outside_names(self) -> list[str]:
        """Parts that outside packages enter, by name; nothing is imported."""
        return sorted(entry.name for _, entry in self._entry_points())

    def get(self, name: str) -> T | None:
        """The part of this name; nothing else is imported."""
        if name in self.file_names():
            return self._built_in(name)
        entered = self._entry_points()
        named = (self._load(package, entry) for package, entry in entered if entry.name == name)
        return next((part for part in named if part is not None), None)

    def all(self) -> dict[str, T]:
        """Every part by its name, ours first. One from outside that can't be loaded, or whose name
        is taken, is left out with a warning."""
        files = self.file_names()
        found = {name: part for name in files if (part := self._built_in(name)) is not None}
        for package, entry in self._entry_points():
            if entry.name in (*files, *found):
                _leave_out(package, entry, "that name is taken")
            elif (part := self._load(package, entry)) is not None:
                found[entry.name] = part
        return found

    def _built_in(self, name: str) -> T | None:
        file = name.replace("-", "_") if self.dashed else name
        return getattr(importlib.import_module(f"{self.package}.{file}"), self.constant, None)

    def _entry_points(self) -> Iterator[tuple[str, EntryPoint]]:
        """Each with its package."""
        for package, entry in _entry_points(tuple(sys.path)):
            if entry.group == self.group:
                yield package, entry

    def _load(self, package: str, entry: EntryPoint) -> T | None:
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
            _leave_out(package, entry, f"{type(error).__name__}: {error}")
            return None
        return part


@cache
def _leave_out(package: str, entry: EntryPoint, reason: str) -> None:
    message = f"{entry.name} of the package {package} ({entry.group}) is left out: {reason}"
    warnings.warn(message, ExtensionWarning, stacklevel=2)


@cache
def _entry_points(path: tuple[str, ...]) -> tuple[tuple[str, EntryPoint], ...]:
    """Of outside packages, each with the name of its package, in the order of the module path; a
    package counts where it is first. One whose entry points can't be read is left out with a
    warning.

    A plain look at files: importlib.metadata takes five times as long to read the entry points
    of all that is installed, and 45 ms to be imported."""
    found: dict[str, tuple[EntryPoint, ...]] = {}
    for folder in path:
        for information in _with_entries(folder):
            from importlib.metadata import Distribution

            # Of METADATA, which may be missing or damaged, nothing is needed.
            package = Path(information).name.partition("-")[0].replace("_", "-")
            if package in found:
                continue
            found[package] = ()
            try:
                found[package] = tuple(Distribution.at(information).entry_points)
            except (AttributeError, TypeError, ValueError) as error:
                # Which of them it is for a line without "=" depends on the version of Python.
                why = f"its entry points can't be read: {type(error).__name__}: {error}"
                message = f"the package {package} is left out: {why}"
                warnings.warn(message, ExtensionWarning, stacklevel=2)
    return tuple((package, entry) for package, entries in found.items() for entry in entries)


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
