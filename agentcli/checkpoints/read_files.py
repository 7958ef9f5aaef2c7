"""Reads the files that a scan found into the store, each once, and returns their tree entries."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import BinaryIO, Self

from agentcli.checkpoints.last_snapshot import LastSnapshot
from agentcli.checkpoints.object_store import ObjectStore
from agentcli.checkpoints.pack_store import PackStore, is_whole
from agentcli.checkpoints.paths import is_object, is_pack, repository_of
from agentcli.checkpoints.places import WorkspaceFolders
from agentcli.checkpoints.scan import FileFacts
from agentcli.checkpoints.trees import KEPT, Entry, FolderChange, entry_mode
from agentcli.workspace.access_scope import LARGEST_COVERED
from agentcli.workspace.names import size_text
from agentcli.workspace.rooted_folder import RootedFolder

UNREADABLE = "can't be read"
STORED = (b"f", b"l")
_DEEPEST = 200
"""The most nested folders: trees are written by recursion."""
_TOO_DEEP = "too many folders deep"


class Reader:
    """Reads files of the workspace; a context manager. Commands may run meanwhile: a link that they
    put in the place of a folder is never followed."""

    def __init__(self, place: WorkspaceFolders, objects: ObjectStore, packs: PackStore) -> None:
        self._place = place
        self._objects = objects
        self._packs = packs
        self._tops: dict[Path, RootedFolder] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for top in self._tops.values():
            top.close()

    def entry(self, facts: FileFacts, after: LastSnapshot) -> Entry | FolderChange | None:
        """Return the tree entry of a path; None if it is not stored, with the reason in `after`."""
        after.files.pop(facts.path, None)
        if facts.path.count(b"/") >= _DEEPEST:
            top = b"/".join(facts.path.split(b"/")[: _DEEPEST + 1])
            after.files[top] = _TOO_DEEP
            return None
        if facts.kind == b"d":
            return FolderChange(entry_mode(stat.S_IFDIR | facts.mode))
        if facts.kind not in STORED:
            return None
        try:
            return self._link(facts) if facts.kind == b"l" else self._file(facts, after)
        except FileNotFoundError:
            return None
        except OSError:
            after.files[facts.path] = UNREADABLE
            return None

    def _link(self, facts: FileFacts) -> Entry:
        beneath, inner = self._beneath(facts.path)
        folder, name = beneath.place(inner)
        target = os.readlink(name, dir_fd=folder)
        return Entry(stat.S_IFLNK, self._objects.write(b"blob", target))

    def is_damaged(self, path: bytes) -> bool:
        """Whether a pack exists and no longer has its original content."""
        with contextlib.suppress(OSError), self._opened(path) as file:
            return not is_whole(file, path)
        return False

    def _file(self, facts: FileFacts, after: LastSnapshot) -> Entry | None:
        with self._opened(facts.path) as file:
            now = os.fstat(file.fileno())
            if not stat.S_ISREG(now.st_mode):
                return None
            in_git = repository_of(facts.path) is not None
            is_large = now.st_size > LARGEST_COVERED
            if in_git and (is_pack(facts.path) or (is_large and is_object(facts.path))):
                if (name := self._packs.keep(file, facts.path)) is not None:
                    return Entry(KEPT | now.st_mode & 0o777, name)
                is_large = True
            if is_large:
                after.files[facts.path] = size_text(now.st_size)
                return None
            data = file.read(now.st_size)
        dense = in_git and is_object(facts.path)
        return Entry(entry_mode(now.st_mode), self._objects.write(b"blob", data, dense=dense))

    def _opened(self, path: bytes) -> BinaryIO:
        beneath, inner = self._beneath(path)
        return open(beneath.open(inner, os.O_RDONLY | os.O_NONBLOCK), "rb")

    def _beneath(self, path: bytes) -> tuple[RootedFolder, bytes]:
        top, inner = self._place.top(path)
        if top not in self._tops:
            self._tops[top] = RootedFolder(top)
        return self._tops[top], inner
