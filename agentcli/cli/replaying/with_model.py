"""Let another model continue a session from one of its events, in a copy of the session and its
files, or do the task of a recording from the start."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from agentcli.agent.replies import ending_of_reply
from agentcli.app.fork import fork
from agentcli.cli.builders import builder_for
from agentcli.cli.flags import Flags
from agentcli.cli.running.new_session import NewSession
from agentcli.cli.running.stored_session import continue_session
from agentcli.cli.running.work import work
from agentcli.cli.user_paths import here, home, named_folder
from agentcli.errors import SessionError, UsageError
from agentcli.events import Event
from agentcli.events.actions import is_user_message
from agentcli.git.disarm import disarm_all
from agentcli.replay.recording import Recording, write_below
from agentcli.sessions.history import cut_at
from agentcli.sessions.session import SessionRecord
from agentcli.ui.text import say_note
from agentcli.workspace.names import display_path
from agentcli.workspace.scope import is_control_file


def continue_with_model(
    model: str, source: SessionRecord | Recording, event_id: int | None, folder: Path | None
) -> int:
    """Let `model` continue from event `event_id`, with the files in a new `folder`. Return the exit
    code of its work."""
    if not isinstance(source, Recording):
        return _go_on(source, model, event_id, folder)
    if event_id is not None:
        raise UsageError("--from is for sessions: the task of a recording is done from the start")
    return _begin(source, model, folder)


def _go_on(session: SessionRecord, model: str, event_id: int | None, folder: Path | None) -> int:
    """Fork the session at `event_id`, by default just before the model's first reply, and let
    `model` continue the fork. Return the exit code of its work."""
    events = session.events
    at = _before_first_reply(events) if event_id is None else event_id
    if at >= len(events):
        raise UsageError(f"there is no event {at}: the newest is {len(events) - 1}")
    cut = cut_at(events, at)
    if ending_of_reply(events[: cut + 1], interactive=False) is not None:
        raise UsageError(
            f"nothing was left to do at event {cut}", hint="name an earlier one with --from"
        )
    target = folder and named_folder(folder, "--dir")
    _require_usable(model, session.state.local_workspace or here())
    forked = fork(home(), session.folder, cut, target)
    where = display_path(forked.workspace)
    for note in (f"from event {cut} on in session {forked.session_id}, in {where}", *forked.notes):
        say_note(note)
    return continue_session(home() / "sessions" / forked.session_id, None, model)


def _begin(recording: Recording, model: str, folder: Path | None) -> int:
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
        _require_usable(model, here())
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


def _require_usable(model: str, workspace: Path) -> None:
    """Raise ConfigError if no session can begin with `model`, before anything is made for it."""
    builder_for(workspace, flags={"model.name": model}).prepare()


def _before_first_reply(events: Sequence[Event]) -> int:
    """Return the id of the last event before the model's first reply."""
    task = next((message.id for message in filter(is_user_message, events)), None)
    if task is None:
        raise UsageError("the session ended before it was given its task")
    reply = next((event.id for event in events[task:] if event.reply is not None), len(events))
    return reply - 1
