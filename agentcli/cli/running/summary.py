"""The summary of some work on a session, for people and programs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.agent.ending import Ending, TurnResult
from agentcli.app.changes import files_changed
from agentcli.app.named_paths import named_before
from agentcli.app.sandbox import TMP_FOLDER
from agentcli.errors import AgentError, SessionError, TurnInterrupted, os_error_text
from agentcli.events.live import newest
from agentcli.events.observations import SessionStartedObservation
from agentcli.evidence import Evidence
from agentcli.sandbox.selection import BUBBLEWRAP
from agentcli.sessions.own_tmp import left_in_tmp
from agentcli.sessions.search.session_totals import SessionTotals
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState
from agentcli.sessions.stream_redactor import NoSecrets
from agentcli.ui.summary import RunSummary
from agentcli.workspace.scope import TMP


def interruption_result(interrupt: TurnInterrupted) -> TurnResult:
    """Return how a turn ended that was asked to stop."""
    return TurnResult(
        Ending(AgentState.PAUSED, interrupt.reason, exit_code=interrupt.exit_code), answer=""
    )


def failure_result(error: AgentError | OSError) -> TurnResult:
    """Return how a turn ended that could not go on."""
    if isinstance(error, OSError):
        error = SessionError(os_error_text(error))
    ending = Ending(AgentState.ERROR, "", error.message, error.exit_code, error.hint)
    return TurnResult(ending, answer="")


def summarise_run(
    session: Session | None,
    done: SessionTotals,
    evidence: Evidence,
    result: TurnResult,
    *,
    duration_s: float,
    lost: str = "",
) -> RunSummary:
    """Return the summary of work that ended with `result`. `lost` is why the answer did not get
    through."""
    ending = result.ending
    redact: Callable[[str], str] = session.redact if session is not None else NoSecrets()
    changed, tmp = done.files_changed, Path()
    tmp_files: tuple[str, ...] = ()
    if session is not None:
        tmp = session.folder / TMP_FOLDER
        changed = files_changed(session.folder, session.state.workspace, done)
        tmp_files = _tmp_files(session, tmp, time.time() - duration_s)
    # A session that never got its task is gone, so it can't be continued.
    session_id = session.id if session is not None and session.state.title else ""
    return RunSummary(
        status=ending.agent_state,
        session_id=session_id,
        exit_code=ending.exit_code,
        reason=ending.reason,
        duration_s=duration_s,
        steps=done.steps,
        usage=done.usage,
        cost_usd=done.cost_usd,
        files_changed=changed,
        evidence=evidence,
        evidence_told=evidence.status_text if _has_news(evidence, changed, done) else "",
        tmp_files=tmp_files,
        tmp_folder=str(tmp) if tmp_files else "",
        resume_command=f"agent resume {session_id}" if session_id else "",
        answer=result.answer,
        error=redact((ending.content or lost) if ending.exit_code else ""),
        hint=redact(ending.hint),
    )


def _has_news(evidence: Evidence, changed: Sequence[str], done: SessionTotals) -> bool:
    """Return whether this work changed or tested something; earlier results were shown before."""
    newest = -1 if evidence.newest is None else evidence.newest.event_id
    return bool(changed) or (done.first_id is not None and newest >= done.first_id)


def _tmp_files(session: Session, folder: Path, since_s: float) -> tuple[str, ...]:
    """Return the files left in /tmp, if commands have a /tmp of their own."""
    start = newest(session.events, SessionStartedObservation)
    if start is None or start.sandbox != BUBBLEWRAP or str(TMP) in (start.writable or ()):
        return ()
    return left_in_tmp(folder, since_s, named_before(session.events))
