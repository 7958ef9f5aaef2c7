"""The summary of some work on a session, for people and programs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from agentcli.agent.ending import TurnResult
from agentcli.app.changes import files_changed
from agentcli.app.named_paths import named_before
from agentcli.app.sandbox import TMP_FOLDER
from agentcli.errors import AgentError
from agentcli.events.live import newest
from agentcli.events.observations import SessionStartedObservation
from agentcli.evidence.values import Evidence
from agentcli.files.access_scope import TMP
from agentcli.sandbox.selection import BUBBLEWRAP
from agentcli.sessions.own_tmp import left_in_tmp
from agentcli.sessions.search.session_totals import SessionTotals
from agentcli.sessions.session import Session
from agentcli.sessions.stream_redactor import NoSecrets
from agentcli.ui.summary import RunSummary


def summarise_run(
    session: Session | None,
    done: SessionTotals,
    evidence: Evidence,
    result: TurnResult | None,
    error: AgentError | None,
    *,
    duration_s: float,
    lost: str = "",
) -> RunSummary:
    """Return the summary of work that ended with `result` or `error`. `lost` is why the answer did
    not get through."""
    ending = result.ending if result else None
    redact = session.redact if session else NoSecrets()
    failed = ending is not None and ending.exit_code != 0
    tmp = session.folder / TMP_FOLDER if session else Path()
    changed = _files_changed(session, done)
    tmp_files = _tmp_files(session, tmp, time.time() - duration_s) if session else ()
    return RunSummary(
        status="error" if error else ending.agent_state if ending else "",
        session_id=session.id if session and _can_go_on(session) else "",
        exit_code=error.exit_code if error else ending.exit_code if ending else 0,
        reason=ending.reason if ending else "",
        duration_s=duration_s,
        steps=done.steps,
        usage=done.usage,
        cost_usd=done.cost_usd,
        files_changed=changed,
        evidence=evidence,
        evidence_told=evidence.status_text if _has_news(evidence, changed, done) else "",
        tmp_files=tmp_files,
        tmp_folder=str(tmp) if tmp_files else "",
        resume_command=resume_command(session),
        answer=result.answer if result else "",
        error=redact(
            error.message if error else (ending.content or lost) if failed and ending else ""
        ),
        hint=redact(error.hint if error else ending.hint if ending else ""),
    )


def _has_news(evidence: Evidence, changed: Sequence[str], done: SessionTotals) -> bool:
    """Return whether this work changed or tested something; earlier results were shown before."""
    newest = -1 if evidence.newest is None else evidence.newest.event_id
    return bool(changed) or (done.first_id is not None and newest >= done.first_id)


def resume_command(session: Session | None) -> str:
    return f"agent resume {session.id}" if session and _can_go_on(session) else ""


def _can_go_on(session: Session) -> bool:
    """Return whether the session can be continued; one that never got its task is gone."""
    return bool(session.state.title)


def _files_changed(session: Session | None, done: SessionTotals) -> tuple[str, ...]:
    if session is None:
        return done.files_changed
    return files_changed(session.folder, session.state.workspace, done)


def _tmp_files(session: Session, folder: Path, since_s: float) -> tuple[str, ...]:
    """Return the files left in /tmp, if commands have a /tmp of their own."""
    start = newest(session.events, SessionStartedObservation)
    if start is None or start.sandbox != BUBBLEWRAP or str(TMP) in (start.writable or ()):
        return ()
    return left_in_tmp(folder, since_s, named_before(session.events))
