"""Writes a recording: what a session began with and everything that happened in it, in one file."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from agentcli import __version__
from agentcli.app.configuration.config import nested
from agentcli.app.replay.replay_copy import ReplayCopy, replay_copy_of_session
from agentcli.app.sandbox import Containment
from agentcli.errors import SessionError
from agentcli.events import Event, event_from_dict, event_to_dict
from agentcli.events.actions import RewindAction, is_user_message
from agentcli.events.observations import CheckpointObservation, SessionStartedObservation
from agentcli.git.safe import ENVIRONMENT, command
from agentcli.replay.recorded_file import RecordedFile, files_below, recorded
from agentcli.replay.recording import RecordingHeader, recording_lines
from agentcli.security.redact import Redactor
from agentcli.sessions.session import SessionRecord
from agentcli.settings import Settings, flatten
from agentcli.system.programs import find_program
from agentcli.workspace.folders import walk
from agentcli.workspace.names import is_generated, size_text
from agentcli.workspace.private import replace_atomically

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
