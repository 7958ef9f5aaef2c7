"""Brings a folder to the state of a snapshot, without ever writing outside of it."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Self

from agentcli.checkpoints.objects import CheckpointError, ObjectStore
from agentcli.checkpoints.pack_store import PackStore, copy_bytes, share
from agentcli.checkpoints.paths import repository_of
from agentcli.checkpoints.trees import Difference, Entry
from agentcli.git.config import is_harmless, parse
from agentcli.git.disarm import RESOLUTIONS, resolved_paths
from agentcli.git.index import is_harmless_index, is_refused
from agentcli.workspace.folders import FolderWriter
from agentcli.workspace.scope import is_routine_git_file


class Restorer:
    """Applies differences below `top`, which must exist. `failures` says by path what went wrong;
    `kept` has the folders that stay because they hold something else; everything else is done.

    With `links`, a file that the store holds as a hard link is linked back; otherwise it is copied,
    so that `top` shares no file with another folder.
    """

    def __init__(self, top: Path, objects: ObjectStore, packs: PackStore, *, links: bool) -> None:
        self._writer = FolderWriter(top)
        self._objects = objects
        self._packs = packs
        self._links = links
        self.failures: dict[bytes, str] = {}
        self.kept: set[bytes] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def apply(
        self,
        differences: Sequence[Difference],
        order: Callable[[Difference], int] = lambda difference: 0,
    ) -> None:
        """Apply `differences`, which are sorted so that folders come before their contents. Files
        are written by `order`; ties keep the given order."""
        for difference in reversed(differences):
            old, new = difference.old, difference.new
            if old is not None and (new is None or old.is_folder != new.is_folder):
                with self._reporting(difference.path):
                    self._remove(difference)
        modes = {d.path: d.new.mode for d in differences if d.new is not None and d.new.is_folder}
        for path in modes:
            with self._reporting(path):
                self._writer.make_folder(path)
        for difference in sorted(differences, key=order):
            if difference.new is not None and not difference.new.is_folder:
                with self._reporting(difference.path):
                    self._write(difference.path, difference.old, difference.new)
        self._writer.set_modes(modes, self.failures)

    def _remove(self, difference: Difference) -> None:
        assert difference.old is not None
        if not difference.old.is_folder:
            self._writer.remove(difference.path)
        elif self._writer.remove_folder(difference.path):
            return
        elif difference.new is None:
            self.kept.add(difference.path)
        else:
            self.failures[difference.path] = "it holds files that are in no checkpoint"

    def _write(self, path: bytes, old: Entry | None, new: Entry) -> None:
        if path in self.failures:
            return
        if old is not None and old.oid == new.oid and not old.is_link and not new.is_link:
            self._writer.set_mode(path, new.mode)
            return
        if new.is_kept:
            self._bring(path, new)
            return
        data = self._objects.read(new.oid)
        if new.is_link:
            self._writer.make_link(path, data)
        elif old is not None or not self._writer.holds(path, new.mode, data):
            self._writer.write_file(path, new.mode, lambda file: file.write(data))

    def _bring(self, path: bytes, entry: Entry) -> None:
        with self._packs.opened(entry.oid, path) as source:
            if self._links and self._packs.is_link(entry.oid):
                with contextlib.suppress(OSError):
                    self._writer.link(path, source)
                    return
            self._writer.write_file(path, entry.mode, lambda file: _copy(source, file))

    @contextlib.contextmanager
    def _reporting(self, path: bytes) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.failures[path] = error.strerror or str(error)
        except CheckpointError as error:
            self.failures[path] = error.message


def _copy(source: BinaryIO, file: BinaryIO) -> None:
    if not share(source, file):
        copy_bytes(source, file)


_INERT = re.compile(r"description|info/exclude|hooks/[^/]+\.sample", re.DOTALL)
_SETTINGS = ("config", "config.worktree")
_TODO = "rebase-merge/git-rebase-todo"
_INDEX = re.compile(r"index|sharedindex\..*", re.DOTALL)
_RUNS = re.compile(rb"^[ \t]*(?:x|exec)[ \t]", re.MULTILINE)
_STRATEGIES = ("rebase-merge/strategy", "sequencer/opts")
"""Files that belong to daily work although they name programs."""


def can_execute_code(
    objects: ObjectStore, path: bytes, entry: Entry, id_bytes: Callable[[], int | None]
) -> bool:
    """Return whether this file could make git run or trust something. `id_bytes` tells how long
    object ids are in its repository; None if that is not known."""
    repository = repository_of(path)
    if repository is None or entry.is_folder:
        return False
    name = os.fsdecode(path[len(repository) + 1 :])
    # A `.git` that is not a folder points to another repository, and so may a link within one.
    if not name or entry.is_link:
        return True
    if not is_routine_git_file(name.split("/")):
        return _INERT.fullmatch(name) is None and not _is_harmless(objects, name, entry)
    if _INDEX.fullmatch(name.rpartition("/")[2]):
        length = id_bytes()
        return length is None or not is_harmless_index(objects.read(entry.oid), length)
    if name.rpartition("/")[2] == RESOLUTIONS:
        return any(map(is_refused, resolved_paths(objects.read(entry.oid))))
    if name.endswith(_TODO):
        return _RUNS.search(objects.read(entry.oid)) is not None
    return name.endswith(_STRATEGIES)


def _is_harmless(objects: ObjectStore, name: str, entry: Entry) -> bool:
    if name.rpartition("/")[2] not in _SETTINGS:
        return False
    settings = parse(objects.read(entry.oid))
    return settings is not None and all(map(is_harmless, settings))
