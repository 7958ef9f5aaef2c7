"""The copy in which a session is repeated, and the recording made from it: what the session began
with and everything that happened in it, in one file."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from agentcli import __version__
from agentcli.app.configuration.config import nested
from agentcli.app.containment import Containment
from agentcli.app.fork import copy_snapshots, moved, require_no_secrets, scratch_place
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.errors import SessionError
from agentcli.events import Event, event_from_dict, event_to_dict
from agentcli.events.actions import RewindAction, is_user_message
from agentcli.events.observations import (
    FOREIGN_PREFIX,
    CheckpointObservation,
    SessionStartedObservation,
)
from agentcli.git.safe import ENVIRONMENT, command
from agentcli.replay.plan import first_snapshot
from agentcli.replay.recording import (
    RecordedFile,
    Recording,
    RecordingHeader,
    files_below,
    recorded,
    recording_lines,
    write_below,
)
from agentcli.security.redact import Redactor
from agentcli.sessions.history import former_workspace
from agentcli.sessions.session import SessionRecord
from agentcli.sessions.staging import Scratch, scratch
from agentcli.settings import Settings, flatten
from agentcli.system.programs import find_program
from agentcli.workspace.folders import walk
from agentcli.workspace.names import is_generated, size_text
from agentcli.workspace.private import replace_atomically


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


_MOST_BYTES = 64_000_000
"""Most bytes of files. A recording is read as a whole, and belongs beside tests."""
_GIT_BYTES = 20_000_000
_HISTORY_BYTES = 100_000_000
"""Most bytes of a repository, unpacked, to search for secrets."""
_RECORDED_SETTINGS = ("tools.max_output_chars", "sandbox.read")
"""Settings that results depend on and that harm nobody who adopts them from a recording."""


def write_recording(
    target: Path,
    record: SessionRecord,
    containment: Containment,
    redactor: Redactor,
    start: str,
    *,
    hooked: bool,
) -> list[str]:
    """Write the session to `target`, with secrets masked. `start` is the snapshot it began with; if
    empty, its first one. `hooked` is as in the copy, and `containment` is the session's. Returns
    notes for people. Raises SessionError."""
    environ, agent_home = containment.environ, containment.agent_home
    with replay_copy_of_session(agent_home, environ, record, start, hooked=hooked) as copy:
        writer = _Recorder(copy, containment, redactor, target)
        try:
            lines = list(writer.lines(record))
            replace_atomically(target, *(f"{line}\n".encode() for line in lines))
        except OSError as error:
            raise SessionError(f"{target} can't be written: {error.strerror or error}") from error
        return [*copy.notes, *writer.notes]


class _Recorder:
    def __init__(
        self, copy: ReplayCopy, containment: Containment, redactor: Redactor, target: Path
    ) -> None:
        self._copy = copy
        self._containment = containment
        self._redactor = redactor
        self._target = target
        self._left = _MOST_BYTES
        self.notes: list[str] = []

    def lines(self, record: SessionRecord) -> Iterator[str]:
        # Collect the files first, as the copy has them now: those of checkpoints replace them.
        files = list(self._files())
        changes = dict(self._changes())
        events = map(self._shareable, self._copy.events)
        yield from recording_lines(self._header(record), files, events, changes)

    def _shareable(self, event: Event) -> Event:
        """Return the event without secrets and the name of the machine."""
        if isinstance(event, SessionStartedObservation):
            event = event.model_copy(update={"host": "", "pid": 0})
        return event_from_dict(self._redactor(event_to_dict(event)))

    def _header(self, record: SessionRecord) -> RecordingHeader:
        started = next(e for e in record.events if isinstance(e, SessionStartedObservation))
        task = next((message.content for message in filter(is_user_message, record.events)), "")
        root = self._copy.root
        workspace = Path(root) / self._copy.workspace.relative_to(self._copy.top)
        return RecordingHeader(
            session_id=record.folder.name,
            version=__version__,
            model=started.model,
            task=self._redactor.text(task),
            workspace=str(workspace),
            root=root,
            sandbox=started.sandbox,
            settings=recorded_settings(self._containment.settings),
            hooked=self._copy.hooked,
            event_count=len(self._copy.events),
        )

    def _files(self) -> Iterator[RecordedFile]:
        every = walk(self._copy.top)
        repositories = [parent / ".git" for parent, folders, _ in every if ".git" in folders]
        bare = [folder for folder in repositories if not self._is_clean(folder)]
        for file in files_below(self._copy.top):
            place = self._copy.top / file.path
            if not any(place.is_relative_to(folder) for folder in bare) and self._belongs(file):
                yield self._masked(file)

    def _belongs(self, file: RecordedFile) -> bool:
        """Whether a file goes into the recording. It does not if the session may not read it, or if
        it is the recording itself."""
        path = PurePosixPath(file.path)
        if path.name.endswith(".sample") and path.parent.match("*.git/hooks"):
            return False
        real = Path(self._copy.root) / path
        if real == self._target:
            return False
        if file.path in self._copy.lent:
            self._note(f"{path} is not in the recording: no snapshot has it")
            return False
        if is_generated(file.path):
            self._note(f"{_generated_in(path)} is not in the recording: tools generate it")
            return False
        if not self._containment.scope.may_read(real):
            self._note(f"{path} is not in the recording: the agent may not read it")
            return False
        return True

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)

    def _masked(self, file: RecordedFile) -> RecordedFile:
        if file.data is None:
            return file
        self._left -= len(file.data)
        if self._left < 0:
            raise SessionError(
                f"its files are larger than a recording may be: {size_text(_MOST_BYTES)}",
                hint="record a task in a smaller folder",
            )
        text = file.data.decode(errors="surrogateescape")
        masked = self._redactor.text(text)
        if masked == text or ".git" in PurePosixPath(file.path).parts:
            return file
        self._note(f"{file.path}: secrets in it are masked")
        return replace(file, data=masked.encode(errors="surrogateescape"))

    def _is_clean(self, folder: Path) -> bool:
        """Whether the repository is small enough and has no secrets in its history."""
        shown = folder.relative_to(self._copy.top)
        size = sum(file.lstat().st_size for file in _files_in(folder))
        if size > _GIT_BYTES:
            self._note(f"{shown} is not in the recording: it is too large, {size_text(size)}")
            return False
        if self._has_secrets(folder):
            self._note(f"{shown} is not in the recording: it has secrets in it, or may have")
            return False
        return True

    def _has_secrets(self, folder: Path) -> bool:
        """Whether the repository contains secrets; also true if that can't be checked."""
        git = find_program("git")
        if git is None:
            return True
        arguments = ("cat-file", "--batch-all-objects", "--batch")
        try:
            with subprocess.Popen(
                command(git, *arguments),
                env={**ENVIRONMENT, "GIT_DIR": str(folder)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as process:
                assert process.stdout is not None
                objects = process.stdout.read(_HISTORY_BYTES + 1)
                if len(objects) > _HISTORY_BYTES:
                    process.kill()
        except OSError:
            return True
        if process.returncode:
            return True
        plain = [
            file.read_bytes()
            for file in _files_in(folder)
            if "objects" not in file.relative_to(folder).parts
        ]
        texts = (data.decode(errors="surrogateescape") for data in (objects, *plain))
        return any(self._redactor.text(text) != text for text in texts)

    def _changes(self) -> Iterator[tuple[int, list[RecordedFile]]]:
        """Yield for each checkpoint the files that differ from the previous one."""
        store, before = self._copy.store, self._copy.start
        for event in self._copy.events:
            if not isinstance(event, CheckpointObservation | RewindAction):
                continue
            tree = event.tree
            if not tree or tree == before:
                continue
            paths = [
                path
                for path in sorted(store.paths(before, tree, folder_modes=False))
                if not path.startswith("./")
                and ".git" not in PurePosixPath(path).parts
                and not is_generated(path)
            ]
            store.restore(tree, paths)
            found = (recorded(self._copy.top / path, path) for path in paths)
            yield event.id, [self._masked(f) for f in found if f is not None and self._belongs(f)]
            before = tree


def _generated_in(path: PurePosixPath) -> PurePosixPath:
    """Return the outermost folder on `path` that tools fill."""
    parents = [*reversed(path.parents)][1:]
    return next(folder for folder in [*parents, path] if is_generated(folder.name))


def recorded_settings(settings: Settings) -> Mapping[str, object]:
    """Return the recorded settings by dotted key."""
    return {key: value for key, value in flatten(settings) if key in _RECORDED_SETTINGS}


def settings_of_recording(kept: Mapping[str, object]) -> Settings:
    """Return the settings that a recording kept, the rest as by default. Raises ValueError if one
    is invalid."""
    found = {key: value for key, value in kept.items() if key in _RECORDED_SETTINGS}
    return Settings.model_validate(nested(found))


def _files_in(folder: Path) -> Iterator[Path]:
    places = (place / name for place, _, names in walk(folder) for name in names)
    return (place for place in places if place.is_file())
