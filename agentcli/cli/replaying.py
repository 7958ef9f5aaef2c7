"""What `agent replay` does with a session or a recording."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path, PurePosixPath

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.open_session import OpenSession
from agentcli.app.recorder import (
    ReplayCopy,
    replay_copy_of_recording,
    replay_copy_of_session,
    settings_of_recording,
    write_recording,
)
from agentcli.app.replay import ReplayContext, Verification
from agentcli.app.replay import verify as verify_copy
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.cli.builders import builder_for, redactor
from agentcli.cli.error_reporting import print_error
from agentcli.cli.flags import Flags
from agentcli.cli.running.work import NewSession, work
from agentcli.cli.sessions.selector import clean_up_interrupted_work, selected_session
from agentcli.cli.terminal import working
from agentcli.cli.user_paths import here, named_file, named_folder, resolved_target
from agentcli.errors import AgentError, SessionError, UsageError
from agentcli.git.disarm import disarm_all
from agentcli.replay.recording import Recording, read_recording, write_below
from agentcli.sessions.session import SessionRecord, read_session
from agentcli.ui.summary import count as counted
from agentcli.ui.text import printable, say, say_note
from agentcli.ui.transcript import Pace, play
from agentcli.workspace.names import display_path
from agentcli.workspace.scope import is_control_file

Source = SessionRecord | Recording


def source_of(named: str | None, option: str | None) -> Source:
    """Return the named session, or the recording of that name. Raises UsageError, SessionError."""
    if named is None or option is not None:
        return read_session(selected_session(named, option))
    path = named_file(Path(named)) if os.sep in named else Path(named)
    if os.sep in named or path.suffix == ".jsonl":
        if not path.exists():
            raise UsageError(f"there is no file {named}")
        clean_up_interrupted_work()
        return read_recording(path)
    try:
        return read_session(selected_session(named))
    except UsageError:
        if path.is_file():
            return read_recording(path)
        raise


# --- showing --------------------------------------------------------------------------------------


def show(source: Source, speed: float | None, first: int, last: int | None, *, step: bool) -> int:
    if source.events and first >= len(source.events):
        raise UsageError(f"there is no event {first}: the newest is {len(source.events) - 1}")
    if last is not None and last < first:
        raise UsageError(f"--to {last} is before --from {first}")
    if step and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("--step needs a terminal to wait at")
    if speed is None:
        speed = 1.0 if sys.stdout.isatty() and not step else 0.0
    play(source.events, first, last, sys.stdout, Pace(speed, _wait_for_key if step else None))
    if isinstance(source, SessionRecord) and source.log.fault:
        say_note(f"what follows is damaged: {source.log.fault}")
    return 0


def _wait_for_key(where: str) -> bool:
    print(f"{where} · Enter continues, q and Enter stop ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    return bool(line) and not line.strip().lower().startswith("q")


# --- doing it again -------------------------------------------------------------------------------


def verify(source: Source, *, as_json: bool) -> int:
    """Repeat the work; return 0 if the results are the same, 1 with the first difference shown."""
    builder = builder_for(_workspace(source))
    count = len(source.events)
    with working("copying the files") as tell, _replay_copy(source, builder) as copy:
        found = verify_copy(
            copy,
            _context(source, builder),
            lambda event: tell(f"event {event.id} of {count}: {event.message}"),
        )
    name = copy.session_id
    if as_json:
        print(json.dumps(_as_json(name, found)))
    else:
        _tell(name, found)
    return 0 if found.difference is None else 1


def _workspace(source: Source) -> Path:
    """Return the folder whose settings apply; a folder that is gone has none of its own."""
    if isinstance(source, SessionRecord) and source.state.local_workspace is not None:
        return source.state.local_workspace
    return here()


def _replay_copy(source: Source, builder: AgentBuilder) -> AbstractContextManager[ReplayCopy]:
    place = (builder.home, builder.environ)
    if isinstance(source, Recording):
        return replay_copy_of_recording(*place, source)
    return replay_copy_of_session(*place, source, hooked=_has_hooks(builder))


def _has_hooks(builder: AgentBuilder) -> bool:
    """Return whether hooks of the user run around tool calls."""
    hooks = builder.settings.hooks
    return bool(hooks.PreToolUse or hooks.PostToolUse)


def _context(source: Source, builder: AgentBuilder) -> ReplayContext:
    settings = builder.settings
    own = [re.compile(pattern) for pattern in settings.replay.normalisers]
    if isinstance(source, Recording):
        # The result for a recording must not depend on the settings of whoever verifies it.
        try:
            settings = settings_of_recording(source.header.settings)
        except ValueError as error:
            kept = ", ".join(f"{key} = {value!r}" for key, value in source.header.settings.items())
            raise SessionError(f"the settings of the recording are not valid: {kept}") from error
    return ReplayContext(builder, settings, redactor(), own)


def _as_json(name: str, found: Verification) -> dict[str, object]:
    return {
        "session_id": name,
        "verified": found.difference is None,
        "calls_again": found.again,
        "files_compared": found.files,
        "taken_from_record": dict(found.taken),
        "sandbox": found.sandbox,
        "notes": found.notes,
        "difference": None if found.difference is None else asdict(found.difference),
    }


def _tell(name: str, found: Verification) -> None:
    _say_notes(found.notes)
    if found.difference is None:
        print(f"{name} gives the same results: {'; '.join(_facts(found))}")
        return
    differs = found.difference
    say(f"event {differs.event_id} differs: {printable(differs.action, multiline=False)}")
    for part in filter(None, (differs.note, differs.diff)):
        say(part)


def _facts(found: Verification) -> Iterator[str]:
    yield f"{counted(found.again, 'call')} repeated"
    if found.files:
        yield f"files compared at {counted(found.files, 'checkpoint')}"
    if found.taken:
        taken = (f"{why} ({number})" for why, number in sorted(found.taken.items()))
        yield f"taken from the record: {', '.join(taken)}"


def _say_notes(notes: Iterable[str]) -> None:
    for note in notes:
        say_note(printable(note, multiline=False))


# --- with another model --------------------------------------------------------------------------


def do_task(recording: Recording, model: str, folder: Path | None) -> int:
    """Let `model` do the recorded task in a new session, in a new `folder` that holds the files the
    recording begins with. Return the exit code of its work."""
    task = recording.header.task
    if folder is None:
        raise UsageError("a recording has no folder", hint="say where its files go: --dir DIR")
    if task.strip() in ("", "-"):
        raise UsageError("the recording has no task")
    top = named_folder(folder, "--dir")
    try:
        if top.exists() and any(top.iterdir()):
            raise UsageError(f"{folder} already exists", hint="name another with --dir")
        # No session can begin with a model that can't be used, so nothing is made for it.
        builder_for(here(), flags={"model.name": model}).prepare()
        top.mkdir(parents=True, exist_ok=True)
        # The maker of a recording must not control what git runs here, now or later.
        files = (f for f in recording.files if not is_control_file(PurePosixPath(f.path).parts))
        workspace = recording.header.workspace_in(top)
        write_below(top, files, workspace)
        with tempfile.TemporaryDirectory(prefix="agent-aside-") as aside:
            for finding in disarm_all(top, Path(aside)):
                say_note(f"left out of the recording's files: {display_path(finding.path)}")
    except OSError as error:
        raise SessionError(f"its files can't be written: {error}") from error
    flags = Flags(model=model, folder=str(workspace), no_stdin=True)
    return work(flags, NewSession(task, flags))


# --- recording ------------------------------------------------------------------------------------


def save(source: Source, target: Path) -> int:
    if isinstance(source, Recording):
        raise UsageError("it is already a recording", hint="copy the file")
    record(builder_for(_workspace(source)), source, target)
    return 0


def record(
    builder: AgentBuilder,
    session: SessionRecord,
    target: Path,
    start: str = "",
    *,
    quiet: bool = False,
) -> None:
    """Write the recording and report it. `start` is the snapshot that the session began with; if
    empty, the session's first one is used. Raises SessionError."""
    containment = builder.containment(session.folder, attended=True)
    place = resolved_target(target.parent) / target.name
    with working("writing the recording"):
        hooked = _has_hooks(builder)
        notes = write_recording(place, session, containment, redactor(), start, hooked=hooked)
    if not quiet:
        _say_notes([*notes, f"recorded in {display_path(target)}"])


class RunRecorder:
    """Records a run to the file `target`. Raises UsageError if no file can be written there."""

    def __init__(self, target: Path, flags: Flags) -> None:
        self._target = named_file(target, "--record")
        if self._target.is_dir() or not self._target.parent.is_dir():
            raise UsageError(
                f"--record {target}: a file can't be created there", hint="name a new file"
            )
        self._quiet = flags.quiet
        self._builder: AgentBuilder | None = None
        self._folder: Path | None = None
        self._start = ""

    def begin(self, builder: AgentBuilder, opened: OpenSession) -> None:
        """Take a snapshot of the files before any work begins."""
        self._builder, self._folder = builder, opened.session.folder
        store = checkpoints_of(self._folder, str(builder.workspace))
        self._start = store.take().tree

    def finish(self, code: int) -> int:
        """Write the recording of the session, however it ended. Return the exit code of the run or,
        if that was 0 and the recording failed, that of the failure."""
        if self._builder is None or self._folder is None:
            return code
        try:
            session = read_session(self._folder)
            record(self._builder, session, self._target, self._start, quiet=self._quiet)
        except AgentError as error:
            print_error(f"no recording: {error.message}", error.hint)
            return code or error.exit_code
        return code
