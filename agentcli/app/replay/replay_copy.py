"""The copy in which a recorded session is repeated: its files as they were at the start, and the
snapshots that its events name."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentcli.app.copies import copy_snapshots, moved, require_no_secrets, scratch_place
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.errors import SessionError
from agentcli.events import Event
from agentcli.events.actions import RewindAction
from agentcli.events.observations import (
    FOREIGN_PREFIX,
    CheckpointObservation,
    SessionStartedObservation,
)
from agentcli.replay.plan import first_snapshot
from agentcli.replay.recorded_file import write_below
from agentcli.replay.recording import Recording
from agentcli.sessions.history import former_workspace
from agentcli.sessions.manage.staging import Scratch, scratch
from agentcli.sessions.session import SessionRecord


@dataclass(frozen=True)
class ReplayCopy:
    """A copy for doing a session again. `workspace` is the session's workspace in the copy, and
    `top` is that of its repository, which the session knew as `root`; `places` maps all folders
    that it knew to the copy. `own` is a private folder. `store` has the snapshots that `events`
    name; the copy starts as `start`. `idle` is as for `restore`."""

    session_id: str
    events: Sequence[Event]
    root: str
    workspace: Path
    top: Path
    own: Path
    places: tuple[tuple[str, str], ...]
    store: Checkpoints
    start: str
    idle: Sequence[str] | None = None
    whole: bool = True
    """Whether the snapshots include git's own state."""
    hooked: bool = False
    """Whether the user's hooks ran around its calls."""
    lent: tuple[str, ...] = ()
    """Links in the copy to what no snapshot has."""
    notes: tuple[str, ...] = ()
    """Notes for people."""


@contextmanager
def replay_copy_of_session(
    home: Path,
    environ: Mapping[str, str],
    record: SessionRecord,
    start: str = "",
    *,
    hooked: bool = False,
) -> Iterator[ReplayCopy]:
    """Yield a copy for a session, which is only read. The copy is removed when the block ends,
    however it ends. `start` is the snapshot it began with, if that is not the first that its events
    name; `hooked` is as in the copy. Raises SessionError if the session's files were not kept,
    ConfigError if secrets are among them."""
    record.require_whole()
    events, notes = _of_one_workspace(record.events)
    start = start or first_snapshot(events)
    then = former_workspace(record.events, 0) or record.state.workspace
    if then.startswith(FOREIGN_PREFIX) or not (start or Path(then).is_dir()):
        raise SessionError(
            f"session {record.folder.name} has no checkpoint, and the folder that it worked in is "
            f"not here: {then}",
            hint="its initial files are unknown; record them next time: agent run --record FILE",
        )
    theirs = checkpoints_of(record.folder, then)
    with scratch(home, scratch_place(environ)) as made:
        if not start:
            notes.append("no checkpoint was kept: its files are taken as they are now")
        kept, start, idle = copy_snapshots(theirs, Path(then), events, start, made.own)
        top = made.files / theirs.root.name
        notes += kept.write_out(start, top, idle=idle, lend=True)
        require_no_secrets(theirs.root, environ, top)
        workspace = moved(Path(then), theirs.root, top)
        yield ReplayCopy(
            session_id=record.folder.name,
            events=events,
            root=str(theirs.root),
            workspace=workspace,
            top=top,
            own=made.own,
            places=_places(events, {then: workspace, str(theirs.root): top}, workspace),
            store=_store(made, workspace, top),
            start=start,
            idle=idle,
            hooked=hooked,
            lent=_lent(kept, start, theirs.root, top),
            notes=tuple(notes),
        )


@contextmanager
def replay_copy_of_recording(
    home: Path, environ: Mapping[str, str], recording: Recording
) -> Iterator[ReplayCopy]:
    """Yield a copy for a recording, like `replay_copy_of_session`. Raises SessionError if the files
    can't be written."""
    header = recording.header
    with scratch(home, scratch_place(environ)) as made:
        top = made.files / (Path(header.root).name or "workspace")
        workspace = header.workspace_in(top)
        try:
            top.mkdir()
            write_below(top, recording.files, workspace)
            store = _store(made, workspace, top)
            start = store.take().tree
            events = list(_with_snapshots(recording, store, top, workspace, start))
        except OSError as error:
            raise SessionError(f"its files can't be written: {error}") from error
        if recording.changes:
            store.restore(start)
        known = {header.workspace: workspace, header.root: top}
        yield ReplayCopy(
            session_id=header.session_id,
            events=events,
            root=header.root,
            workspace=workspace,
            top=top,
            own=made.own,
            places=_places(events, known, workspace),
            store=store,
            start=start,
            whole=False,
            hooked=header.hooked,
        )


def _store(made: Scratch, workspace: Path, top: Path) -> Checkpoints:
    """Return the snapshots in the scratch folder, which are those of the copy from now on."""
    (made.own / "checkpoints").mkdir(mode=0o700, exist_ok=True)
    checkpoints_of(made.own, str(workspace)).move_to(workspace, top)
    return checkpoints_of(made.own, str(workspace))


def _places(
    events: Sequence[Event], known: Mapping[str, Path], workspace: Path
) -> tuple[tuple[str, str], ...]:
    """Map each folder that the session knew to the copy, longest first. The log of a fork has the
    folder of the original too."""
    started = (event for event in events if isinstance(event, SessionStartedObservation))
    every = {**{event.workspace: workspace for event in started}, **known}
    longest_first = sorted(every.items(), key=lambda place: -len(place[0]))
    return tuple((there, str(here)) for there, here in longest_first if there != "/")


def _lent(kept: Checkpoints, tree: str, root: Path, top: Path) -> tuple[str, ...]:
    """Return the links in the copy to what the snapshot left out. Has git ignore them, as it
    ignores what they lead to."""
    left_out = (os.path.relpath(path, root) for path in kept.left_out(tree))
    lent = tuple(path for path in sorted(left_out) if (top / path).is_symlink())
    exclude = top / ".git" / "info" / "exclude"
    if lent and exclude.parent.is_dir() and not exclude.is_symlink():
        with exclude.open("a") as file:
            file.writelines(f"/{path}\n" for path in lent)
    return lent


def _of_one_workspace(events: Sequence[Event]) -> tuple[list[Event], list[str]]:
    """Return the events up to a change of the workspace, and notes for people about that."""
    place = None
    for event in events:
        if not isinstance(event, SessionStartedObservation):
            continue
        if place not in (None, event.workspace) and event.forked_from is None:
            moved_to = f"the session moved to {event.workspace} at event {event.id}"
            return list(events[: event.id]), [f"{moved_to}; only the events before that are used"]
        place = event.workspace
    return list(events), []


def _with_snapshots(
    recording: Recording, store: Checkpoints, top: Path, workspace: Path, tree: str
) -> Iterator[Event]:
    """Yield the recording's events with snapshots made for them in `store`; `tree` is the first."""
    for event in recording.events:
        if isinstance(event, CheckpointObservation | RewindAction) and event.tree:
            if changed := recording.changes.get(event.id):
                write_below(top, changed, workspace)
                tree = store.take().tree
            event = event.model_copy(update={"tree": tree})
        yield event
