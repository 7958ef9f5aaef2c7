"""Fork a session: continue from one of its events, in a copy of it and of its files."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli import __version__
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.errors import ConfigError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction
from agentcli.events.observations import SessionStartedObservation
from agentcli.sandbox.scope_finder import secret_places
from agentcli.sessions.finder import new_folder
from agentcli.sessions.history import (
    all_snapshots,
    cut_at,
    former_workspace,
    idle_snapshots,
    snapshot_at,
)
from agentcli.sessions.session import SessionRecord, read_session
from agentcli.sessions.staging import copy_events, drafting, staging
from agentcli.system.homes import cache_home, state_home, user_home
from agentcli.system.programs import user_environ
from agentcli.workspace.names import display_path, quoted_path


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


@dataclass(frozen=True)
class Forked:
    session_id: str
    at_event: int
    workspace: Path
    notes: tuple[str, ...]


def fork(home: Path, original: Path, event_id: int | None, folder: Path | None) -> Forked:
    """Create a session with the events of the one in `original` up to `event_id` (None: to its end)
    and, in a new `folder` (None: beside its workspace), the files as they were then.

    The original is only read, so it may be in use. Raises UsageError if there is no such event or
    the folder exists and is not empty, SessionError if the files of that time were not kept,
    ConfigError if secrets are among them. A kill at any moment leaves both or neither; if not at
    once, then after the next sweep.
    """
    record = read_session(original)
    cut = cut_at(record.events, len(record.events) - 1 if event_id is None else event_id)
    copy_id = new_folder(home).name
    tree = snapshot_at(record.events, cut) or ""
    before = Path(former_workspace(record.events, cut) or record.state.workspace)
    if folder is None and not before.is_absolute():
        raise UsageError(
            f"session {original.name} worked in {before}",
            hint="say where its files are to go: --dir DIR",
        )
    store = checkpoints_of(original, str(before))
    top = folder or store.root.with_name(f"{store.root.name}-fork-{copy_id[-4:]}")
    _require_free(top)
    # A session begun in a folder of a repository continues in that folder.
    workspace = moved(before, store.root, top)
    with staging(home, copy_id) as staged, drafting(staged, top) as draft:
        events = record.events[: cut + 1]
        kept, tree, idle = copy_snapshots(store, before, events, tree, staged)
        notes = kept.write_out(tree, draft, idle=idle)
        require_no_secrets(store.root, user_environ(), draft)
        kept.move_to(workspace, top)
        copy_events(original, staged, cut, beginning(record, copy_id, cut, before, workspace))
    return Forked(copy_id, cut, workspace, tuple(notes))


def _require_free(folder: Path) -> None:
    try:
        if os.path.lexists(folder) and any(folder.iterdir()):
            raise UsageError(f"{folder} already exists", hint="name another with --dir")
    except OSError as error:
        raise UsageError(f"{folder} can't be used: {error.strerror}") from error


def beginning(
    record: SessionRecord, copy_id: str, cut: int, before: Path, workspace: Path
) -> list[Event]:
    """Return the first events of a copy: who it is, and a message to the model."""
    original = record.folder.name
    return [
        SessionStartedObservation(
            version=__version__,
            session_id=copy_id,
            model=record.state.model,
            sandbox="none",
            workspace=str(workspace),
            pid=os.getpid(),
            host=socket.gethostname(),
            forked_from=original,
            forked_at=cut,
        ),
        MessageAction(
            content=f"[You work in a copy of session {original} from here on. Its workspace is now "
            f"{quoted_path(workspace)}, a copy of {quoted_path(before)} as it was at this point.]",
            source=Source.ENVIRONMENT,
        ),
    ]
