"""Temporary copies of a session's files as they once were, to run something in."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.sessions.history import all_snapshots, former_workspace, idle_snapshots, snapshot_at
from agentcli.sessions.manage.staging import scratch
from agentcli.sessions.session import SessionRecord
from agentcli.system.homes import cache_home


@dataclass(frozen=True)
class ScratchCopy:
    """`workspace` is the session's workspace in the copy, `root` that of its repository. `own` is a
    private folder for whoever works with the copy, with a name that no session has. `notes` are for
    people: what is missing from the copy, and which parts are `lent`, which means links into the
    workspace itself, such as dependencies that no snapshot holds (`node_modules`)."""

    workspace: Path
    root: Path
    own: Path
    original: Path
    """What `root` is a copy of; it may no longer exist."""
    notes: tuple[str, ...] = ()
    lent: tuple[Path, ...] = ()
    """Where the links lead."""


def scratch_place(environ: Mapping[str, str]) -> Path:
    return cache_home(environ) / "scratch"


@contextmanager
def scratch_of_tree(
    home: Path,
    environ: Mapping[str, str],
    store: Checkpoints,
    workspace: Path,
    tree: str,
    idle: Collection[str] | None,
) -> Iterator[ScratchCopy]:
    """Yield the files of a snapshot in `store`, which is of `workspace`, in a private folder that
    is removed when the block ends, however it ends. `idle` are snapshots taken while no command ran
    (see `restore`). The store is only read, so it may be in use. Raises SessionError."""
    with scratch(home, scratch_place(environ)) as made:
        root = made.files / store.root.name
        notes = store.write_out(tree, root, idle=idle, lend=True)
        there = moved(workspace, store.root, root)
        yield ScratchCopy(there, root, made.own, store.root, tuple(notes), lent_of(store, tree))


def lent_of(store: Checkpoints, tree: str) -> tuple[Path, ...]:
    """Return what a copy of this snapshot has as links."""
    return tuple(path for path in sorted(store.left_out(tree)) if path.exists())


class PastFiles:
    """A session's files just after an event. Raises SessionError if they were not kept."""

    def __init__(self, record: SessionRecord, event_id: int) -> None:
        self._events = record.events[: event_id + 1]
        self._tree = snapshot_at(record.events, event_id)
        then = former_workspace(record.events, event_id) or record.state.workspace
        self.workspace = Path(then)
        self.store = checkpoints_of(record.folder, then)

    def copy_store(self, folder: Path) -> tuple[Checkpoints, str]:
        """Copy the snapshots up to the event to the new session `folder`. Return them, and the tree
        of these files: if nothing has changed them since the event, a snapshot is taken now."""
        known = [*all_snapshots(self._events), *([self._tree] if self._tree else [])]
        self.store.copy_to(folder / "checkpoints", known)
        kept = checkpoints_of(folder, str(self.workspace))
        return kept, self._tree or kept.take().tree

    def idle(self, tree: str) -> list[str] | None:
        """Return the idle snapshots (see `idle_snapshots`); `tree` is that of these files."""
        found = idle_snapshots(self._events)
        return found if found is None or self._tree is not None else [*found, tree]

    def workspace_in(self, root: Path) -> Path:
        """Return the workspace in a copy at `root`: a session begun in a folder of a repository
        continues in that folder."""
        return moved(self.workspace, self.store.root, root)


def moved(workspace: Path, root: Path, to: Path) -> Path:
    """Return where `workspace`, which is inside `root`, is in a copy of `root`."""
    return to / os.path.relpath(os.path.realpath(workspace), root)
