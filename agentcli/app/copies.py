"""Copies of a session's files as they once were."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.errors import ConfigError
from agentcli.events import Event
from agentcli.sandbox.scope_finder import secret_places
from agentcli.sessions.history import all_snapshots, idle_snapshots
from agentcli.system.homes import cache_home, state_home, user_home
from agentcli.workspace.names import display_path


def scratch_place(environ: Mapping[str, str]) -> Path:
    """Return where copies are made that nobody needs afterwards."""
    return cache_home(environ) / "scratch"


def require_no_secrets(root: Path, environ: Mapping[str, str], copy: Path | None = None) -> None:
    """Raise ConfigError if secrets or the agent's own state lie below `root`, or would if it were
    as in the `copy`. Where they are, they are hidden from commands; in a copy they are not."""
    real, home = Path(os.path.realpath(root)), str(user_home(environ))
    for place in (state_home(environ).resolve(), *secret_places(home, environ, str(real))):
        if real not in place.parents:
            continue
        if os.path.lexists(place if copy is None else copy / place.relative_to(real)):
            raise ConfigError(
                f"{display_path(root)} is not copied: in a copy, {display_path(place)} would no "
                "longer be hidden from commands",
                hint="keep secrets out of the folder that is copied",
            )


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
