"""How some work on a session went, as people and programs are told it."""

from __future__ import annotations

from agentcli.agent.ending import TurnResult
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.errors import AgentError, SessionError
from agentcli.files.names import is_generated
from agentcli.sessions.search.session_totals import SessionTotals
from agentcli.sessions.session import Session
from agentcli.sessions.stream_redactor import NoSecrets
from agentcli.ui.summary import RunSummary


def summarise_run(
    session: Session | None,
    done: SessionTotals,
    result: TurnResult | None,
    error: AgentError | None,
    *,
    duration_s: float,
    lost: str = "",
) -> RunSummary:
    """Of what ended with `result` or `error`. `lost` is why the answer did not get through."""
    ending = result.ending if result else None
    redact = session.redact if session else NoSecrets()
    failed = ending is not None and ending.exit_code != 0
    return RunSummary(
        status="error" if error else ending.agent_state if ending else "",
        session_id=session.id if session and _can_go_on(session) else "",
        exit_code=error.exit_code if error else ending.exit_code if ending else 0,
        reason=ending.reason if ending else "",
        duration_s=duration_s,
        steps=done.steps,
        usage=done.usage,
        cost_usd=done.cost_usd,
        files_changed=_files_changed(session, done),
        resume_command=resume_command(session),
        answer=result.answer if result else "",
        error=redact(
            error.message if error else (ending.content or lost) if failed and ending else ""
        ),
        hint=redact(error.hint if error else ending.hint if ending else ""),
    )


def resume_command(session: Session | None) -> str:
    return f"agent resume {session.id}" if session and _can_go_on(session) else ""


def _can_go_on(session: Session) -> bool:
    """A session that never got its task is gone."""
    return bool(session.state.title)


def _files_changed(session: Session | None, done: SessionTotals) -> tuple[str, ...]:
    """By whatever means, if the workspace was kept before and after; else by the file tools."""
    if session is None or done.trees is None:
        return done.files_changed
    kept = checkpoints_of(session.folder, session.state.workspace)
    try:
        changed = (c.path for c in kept.changes(*done.trees) if not c.told)
        return tuple(path for path in changed if not is_generated(path))
    except SessionError:
        return done.files_changed
