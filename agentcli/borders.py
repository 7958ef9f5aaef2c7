"""What a session may see and change: one value that policy, sandbox and file tools share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Borders:
    """All paths are absolute and resolved. `writable`: the repository's root (else the working
    directory), a worktree's common git folder, and what the user added. `protected`: within those,
    but read-only: `.git/hooks`, `.git/config`. `hidden`: not even to be read: secret files and
    folders, sockets, the agent's own settings and sessions; `readable` are exceptions within it,
    such as the session's outputs. `own`: the agent's settings and state, which nothing it runs may
    write in any mode. `mounts`: where a folder of the commands' view really is (`/tmp`)."""

    workspace: Path
    home: Path
    writable: tuple[Path, ...]
    protected: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    mounts: Mapping[Path, Path] = field(default_factory=dict)

    def may_read(self, path: Path) -> bool:
        """Of a resolved path."""
        if _within(path, (*self.readable, *self.mounts.values())):
            return True
        return not _within(path, self.hidden)

    def may_write(self, path: Path) -> bool:
        """Of a resolved path."""
        if _within(path, self._opened()):
            return True
        if not self.may_read(path) or _within(path, (*self.protected, *self.own)):
            return False
        return _within(path, self.writable)

    def real_path(self, path: Path) -> Path:
        """Where an absolute path of the commands' view is. What is shown below a mount at its own
        place, such as a workspace in /tmp, is there."""
        if ".." in path.parts or _within(path, (*self.writable, *self.readable)):
            return path
        for seen, real in self.mounts.items():
            if path.is_relative_to(seen):
                return real / path.relative_to(seen)
        return path

    def seen_path(self, path: Path) -> Path:
        """The other way round."""
        for seen, real in self.mounts.items():
            if path.is_relative_to(real):
                return seen / path.relative_to(real)
        return path

    def _opened(self) -> tuple[Path, ...]:
        """Folders of the agent's own that are there for commands."""
        opened = (folder for folder in self.writable if _within(folder, self.own))
        return (*self.mounts.values(), *opened)


def _within(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
