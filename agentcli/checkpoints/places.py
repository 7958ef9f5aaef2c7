"""The folders that the snapshots of a workspace cover, and the paths they are stored under.

Commands may write to the whole repository around the workspace, so a snapshot covers all of it. A
worktree's git folder lies elsewhere; it is stored below the path `.`, which no file can have.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from agentcli.git.repositories import find_repository
from agentcli.workspace.opening import name_on_disk
from agentcli.workspace.private import dump_json

COMMON = b"."
"""The path of a git folder outside of `root`; its files are `./HEAD` and so on."""
_FILE = "place"


@dataclass(frozen=True)
class WorkspaceFolders:
    """`root` is the workspace or a folder above it, `common` the git folder of its repository if
    that lies outside of `root`. All are real paths."""

    workspace: Path
    root: Path
    common: Path | None = None

    def top(self, path: bytes) -> tuple[Path, bytes]:
        """Return the top folder that contains `path`, and the path in it; empty for the top
        itself."""
        if self.common is not None and is_common(path):
            return self.common, path[2:]
        return self.root, path

    def absolute(self, path: bytes) -> bytes:
        top, inner = self.top(path)
        return os.fsencode(top) + b"/" + inner

    def shown(self, path: bytes) -> str:
        """Return a path for people and models: relative to the workspace if it lies in `root`."""
        whole = os.fsdecode(self.absolute(path))
        if self.top(path)[0] != self.root:
            return whole.rstrip("/")
        return os.path.relpath(whole, self.workspace)

    def within(self, path: Path) -> bytes | None:
        """Convert a path that is absolute or relative to the workspace, resolving symlinks in its
        parents; None outside of `root`."""
        whole = self.workspace / path
        return inside(self.root, Path(os.path.realpath(whole.parent)) / whole.name)

    def alone(self) -> WorkspaceFolders:
        """Return the workspace without the rest of its repository, except for the git folder."""
        repository = find_repository(self.workspace)
        return _place(self.workspace, self.workspace, repository.folders if repository else ())


def find_place(workspace: Path) -> WorkspaceFolders:
    # A folder that does not exist here, or no longer, belongs to no repository.
    repository = find_repository(workspace) if workspace.is_dir() else None
    home = Path(os.path.realpath(os.path.expanduser("~")))  # noqa: PTH111 (Path's own may fail)
    if repository is None or home.is_relative_to(repository.root):
        return WorkspaceFolders(workspace, workspace)
    return _place(workspace, repository.root, repository.folders)


def _place(workspace: Path, root: Path, git_folders: Iterable[Path]) -> WorkspaceFolders:
    outside = (folder for folder in map(Path.resolve, git_folders) if inside(root, folder) is None)
    return WorkspaceFolders(workspace, root, next(outside, None))


def load_place(store: Path, workspace: Path) -> WorkspaceFolders | None:
    """Load the folders that were found at the first snapshot of this workspace; None if there was
    none. They stay the same from then on, as the repository they were found by may be destroyed."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        facts = json.loads((store / _FILE).read_bytes())
        if facts["workspace"] == str(workspace):
            common = facts["common"]
            return WorkspaceFolders(
                workspace, Path(facts["root"]), Path(common) if common else None
            )
    return None


def save_place(store: Path, place: WorkspaceFolders) -> None:
    common = str(place.common) if place.common else None
    facts = {"workspace": str(place.workspace), "root": str(place.root), "common": common}
    dump_json(store / _FILE, facts)


def is_common(path: bytes) -> bool:
    return path == COMMON or path.startswith(b"./")


def redirected_outputs() -> Iterator[Path]:
    """Yield the files to which stdout and stderr of this process are redirected. They change while
    the agent works, but not through its work."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if stat.S_ISREG(os.fstat(number).st_mode):
                yield name_on_disk(number) or Path(f"/proc/self/fd/{number}").readlink()


def inside(folder: Path, path: Path) -> bytes | None:
    """Return `path` relative to `folder`; None if it is `folder` itself or not in it."""
    try:
        relative = path.relative_to(folder)
    except ValueError:
        return None
    return os.fsencode(relative) if relative.parts and ".." not in relative.parts else None
