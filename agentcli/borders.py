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
        if _within(path, self.readable):
            return True
        return not _within(path, self.hidden)

    def may_write(self, path: Path) -> bool:
        """Of a resolved path."""
        if not self.may_read(path) or _within(path, (*self.protected, *self.own)):
            return False
        return _within(path, (*self.writable, *self.mounts.values()))


def _within(path: Path, folders: tuple[Path, ...]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)
