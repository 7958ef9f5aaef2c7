"""What reopening a session needs to know: what is left to do, and where things were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agentcli.agent.prompts import SandboxFacts
from agentcli.agent.replies import ending_of_reply
from agentcli.app.configuration.places import resolve_workspace
from agentcli.errors import ConfigError, UsageError
from agentcli.events import Event
from agentcli.events.actions import SystemMessageAction, is_user_message
from agentcli.events.conversation import newest, newest_first
from agentcli.events.observations import (
    FOREIGN_PREFIX,
    AgentStateChangedObservation,
    CmdOutputObservation,
    SessionStartedObservation,
)
from agentcli.messages import ToolSchema
from agentcli.security.redact import MASK
from agentcli.sessions import inbox
from agentcli.sessions.finder import exists, state_of
from agentcli.sessions.library import store_of
from agentcli.sessions.session import SessionLog, read_session
from agentcli.shell.variables import Exports, may_cross, restorable
from agentcli.system.processes import kill_marked
from agentcli.workspace.private import remove_tree


def workspace_of(folder: Path) -> Path:
    """Return where a session worked. Raises ConfigError if that no longer exists."""
    state = state_of(folder)
    if state.local_workspace is None:
        gone = "" if state.workspace.startswith(FOREIGN_PREFIX) else ", which is no longer there"
        raise ConfigError(
            f"session {folder.name} worked in {state.workspace}{gone}",
            hint=f"to go on elsewhere: agent resume {folder.name} -C DIR; to restore its files "
            f"in a new folder: agent fork {folder.name} --dir DIR",
        )
    return resolve_workspace(str(state.local_workspace))


def system_message(events: Sequence[Event]) -> SystemMessageAction | None:
    """Return the event that has the system text and the tools; None if it was never recorded."""
    return next((event for event in events if isinstance(event, SystemMessageAction)), None)


def require_work(
    session: SessionLog, has_message: bool, *, interactive: bool
) -> SystemMessageAction:
    """Return the session's system message. Raises UsageError if nothing is left to do."""
    stored = system_message(session.events)
    has_message = has_message or bool(inbox.waiting(session.folder))
    unmet = bool(session.state.required) and session.state.exit_code != 0
    has_task = any(map(is_user_message, newest_first(session.events)))
    if stored is None or not (has_message or has_task):
        raise UsageError(
            f"session {session.id} ended before it was given its task",
            hint="start a new one: agent run",
        )
    over = ending_of_reply(session.events, interactive=interactive) is not None
    if over and not (has_message or unmet or _ended_untold(session)):
        raise UsageError(
            f"session {session.id} has nothing left to do",
            hint=f'say what comes next: agent resume {session.id} "…"',
        )
    return stored


def _ended_untold(session: SessionLog) -> bool:
    """Whether the last process was killed, so that the user may not have seen its last reply."""
    last = newest(session.events, AgentStateChangedObservation)
    return last is not None and last.reason == "killed"


def discard_unfinished(folder: Path) -> Sequence[Event]:
    """Return the recorded events of the session that was to be made in `folder`. If the process was
    killed while making it, nothing was done yet: its remains are removed, and there are none.
    Raises SessionError."""
    if exists(folder):
        events = read_session(folder).events
        if system_message(events) is not None:
            return events
        store_of(folder).remove()
    remove_tree(folder)
    return ()


def end_survivors(session_id: str, environ: Mapping[str, str]) -> None:
    """End what commands of a killed process have left running."""
    if environ.get("AGENT_SESSION_ID") != session_id:
        kill_marked(f"AGENT_SESSION_ID={session_id}")


def stored_schemas(stored: SystemMessageAction | None) -> tuple[ToolSchema, ...]:
    """Return the tools that a session was begun with; none if it is new."""
    if stored is None:
        return ()
    return tuple(ToolSchema(**schema) for schema in stored.tools)


def last_folder(past: Sequence[Event], workspace: str, layer: str) -> str | None:
    """Return the folder in which the shell was last, for a new shell to start in. None unless the
    workspace is the same and commands in `layer` have no more rights than the commands that chose
    the folder. It may be gone: the shell tells that."""
    folder = at = None
    now = chosen_in = ""
    for event in past:
        if isinstance(event, SessionStartedObservation):
            folder, at = folder if event.workspace == at else None, event.workspace
            now = event.sandbox
        elif isinstance(event, CmdOutputObservation) and event.metadata.cwd:
            folder, chosen_in = event.metadata.cwd, now
    if at != workspace or folder is None or not may_cross(chosen_in, layer):
        return None
    return folder


def change_messages(
    session: SessionLog, workspace: Path, now: SandboxFacts | None, *, was_here: bool
) -> Iterator[str]:
    """Yield what the model must know about where it works now; the session is still as it was left.
    `was_here`: this home already had its folder."""
    if session.state.workspace != str(workspace):
        yield f"[The workspace is now {workspace}; what is said above was elsewhere.]"
    if told := sandbox_message(session.events, now):
        yield told
    if not was_here:
        yield (
            "[This session worked on another machine before. Outputs that are said above to be in "
            "files, and what it left in $TMPDIR, are not here.]"
        )


def sandbox_message(past: Sequence[Event], now: SandboxFacts | None) -> str:
    """Return what the model must know if its commands are contained differently than when the
    session was left, because its system text stays as it was; else empty."""
    before = newest(past, SessionStartedObservation)
    layer, sealed = (now.layer, now.sealed) if now else ("none", False)
    if before is None:
        return ""
    same = (before.sandbox, before.sealed) == (layer, sealed)
    if same and (now is None or _reaches_as(before, now)):
        return ""
    if now is None:
        return (
            "[Commands now run without a sandbox, with all rights of the user; what is said of one "
            "above no longer holds.]"
        )
    where = f"write to {', '.join(now.writable)} only" if now.writable else "write nowhere"
    where = "write to $TMPDIR only (plan mode: nothing is changed)" if sealed else where
    network = "can reach the network" if now.network else "have no network"
    if now.host_ports:
        ports = ", ".join(map(str, now.host_ports))
        network += f" but a loopback of their own, at which {ports} of the host can be reached"
    return (
        f"[Commands now run in a sandbox ({layer}): they {where} and {network}; what is said above "
        "of where they run no longer holds.]"
    )


def _reaches_as(before: SessionStartedObservation, now: SandboxFacts) -> bool:
    """Whether commands may write to the same folders and reach the same ports, if recorded."""
    same_ports = before.host_ports in (None, now.host_ports)
    return same_ports and (now.sealed or before.writable in (None, now.writable))


def last_writable(past: Sequence[Event], workspace: str) -> Sequence[str] | None:
    """Return what commands could write to when the session was left; None if that is unknown for
    this workspace, or was not enforced: in plan mode or without a sandbox nobody names folders."""
    before = newest(past, SessionStartedObservation)
    if before is None or before.writable is None or before.workspace != workspace:
        return None
    if before.sealed or before.sandbox == "none":
        return None
    return tuple(folder for folder in before.writable if Path(folder).is_dir())


def last_exports(
    past: Sequence[Event], layer: str, own: Mapping[str, str]
) -> tuple[Exports, list[str]]:
    """Return how commands changed the exported variables, with notes if some can't be restored.
    Commands now run in `layer` and have `own` variables anyway."""
    exports = Exports()
    secret: set[str] = set()
    for event in past:
        if isinstance(event, CmdOutputObservation) and event.metadata.exports:
            known, withheld = restorable(event.metadata.exports, MASK)
            exports.add(known, event.metadata.exports_layer)
            secret = (secret - known.keys()) | set(withheld)
    notes = []
    if secret:
        names = ", ".join(sorted(secret))
        notes.append(f"secret values are not stored; not restored: {names}")
    if others := exports.withheld(layer, own):
        notes.append(
            f"not restored, because they were set in a stricter sandbox: {', '.join(others)}; "
            "set them in the command if it needs them"
        )
    return exports, notes
