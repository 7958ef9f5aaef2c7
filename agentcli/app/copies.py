"""Copies of a session's files as they once were."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.events import Event
from agentcli.sessions.history import all_snapshots, idle_snapshots
from agentcli.system.homes import cache_home


def scratch_place(environ: Mapping[str, str]) -> Path:
    """Return where copies are made that nobody needs afterwards."""
    return cache_home(environ) / "scratch"


def copy_snapshots(
    store: Checkpoints, workspace: Path, events: Sequence[Event], tree: str, folder: Path
) -> tuple[Checkpoints, str, list[str] | None]:
    """Copy to `folder` those snapshots of `workspace` that `events` name, and `tree`. Return them,
    the tree, and the idle ones (see `idle_snapshots`). If `tree` is empty, nothing has changed the
    files since, and it is taken now."""
    store.copy_to(folder / "checkpoints", [*all_snapshots(events), *filter(None, [tree])])
    kept = checkpoints_of(folder, str(workspace))
    idle = idle_snapshots(events)
    if not tree:
        tree = kept.take().tree
        idle = None if idle is None else [*idle, tree]
    return kept, tree, idle


def lent_by(store: Checkpoints, tree: str) -> tuple[Path, ...]:
    """Return what a copy of this snapshot has as links into the workspace itself: what no snapshot
    holds, such as dependencies (`node_modules`)."""
    return tuple(path for path in sorted(store.left_out(tree)) if path.exists())


def moved(workspace: Path, root: Path, to: Path) -> Path:
    """Return where `workspace`, which is inside `root`, is in a copy of `root`."""
    return to / os.path.relpath(os.path.realpath(workspace), root)
