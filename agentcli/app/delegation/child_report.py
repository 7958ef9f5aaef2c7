"""Makes the report to the parent from a child's own events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentcli.agent.approval_denied import NEEDS_APPROVAL
from agentcli.agent.replies import last_answer
from agentcli.agent.run_limits import MAX_TURNS
from agentcli.app.changes import files_changed
from agentcli.events import Event
from agentcli.events.actions import MessageAction
from agentcli.events.live import newest, newest_first
from agentcli.events.observations import AgentStateChangedObservation, DelegateObservation
from agentcli.evidence.fold import child_tests, evidence_of
from agentcli.memory.projection import clip
from agentcli.sessions.search.session_totals import totals
from agentcli.sessions.session import SessionRecord
from agentcli.sessions.state import AgentState, Metrics
from agentcli.workspace.names import first_names

MAX_REPORT_CHARS = 24_000
_FACTS_CHARS = 3_000
_MOST_FILES = 20
_OVER = (AgentState.FINISHED, AgentState.REJECTED, AgentState.ERROR)


def has_task(events: Sequence[Event], key: str) -> bool:
    """Whether the child was given the task of this delegation."""
    return any(isinstance(e, MessageAction) and e.delegated == key for e in newest_first(events))


def is_over(events: Sequence[Event]) -> bool:
    """Whether the child has finished, rather than only stopped with more to do."""
    last = newest(events, AgentStateChangedObservation)
    if last is None:
        return False
    return last.agent_state in _OVER or (last.agent_state == "paused" and last.reason == MAX_TURNS)


def report_of(record: SessionRecord, known: Metrics, key: str) -> DelegateObservation:
    """Return the report on the delegation `key`. `known` is the usage of the child that the parent
    already knows."""
    events, state = record.events, record.state
    last = newest(events, AgentStateChangedObservation)
    status = _status(last)
    own = _since_task(events, key)
    done = totals(own)
    changed = files_changed(record.folder, state.workspace, done)
    used = _difference(state.metrics_with_children, known)
    costs = [each.get("cost_usd") for each in used.values()]
    said = clip(last_answer(events), MAX_REPORT_CHARS - _FACTS_CHARS)
    facts = _facts(record.folder.name, status, last, done.steps, changed)
    denied = last is not None and last.reason == NEEDS_APPROVAL
    return DelegateObservation(
        content="\n\n".join(filter(None, (said, facts))),
        agent=state.agent_name,
        session_id=record.folder.name,
        status=status,
        error=status != "finished",
        needs_approval=last.content if denied and last is not None else "",
        steps=done.steps,
        cost_usd=None if None in costs else float(sum(cost or 0 for cost in costs)),
        metrics=used,
        abandoned_usd=0.0 if known else state.abandoned_usd,
        files_changed=changed,
        tests=child_tests(evidence_of(events), own[0].id if own else 0),
    )


def _facts(
    session_id: str,
    status: str,
    last: AgentStateChangedObservation | None,
    steps: int,
    changed: Sequence[str],
) -> str:
    """Return a line for the model that follows the child's answer."""
    told = f"session {session_id}: {status} after {steps} step{'s' * (steps != 1)}"
    if status != "finished" and last is not None and last.content:
        told += f" ({' '.join(last.content.split())[:500]})"
    if status not in ("finished", "failed"):
        told += "; it goes on if you delegate to this session"
    if changed:
        names = first_names(changed, _MOST_FILES)
        told += f". It changed {names}: what you read of these before is out of date"
    return f"[{told}.]"


def _status(last: AgentStateChangedObservation | None) -> str:
    """Return how the child ended, as a stable word."""
    if last is None or last.agent_state in ("running", "rate_limited"):
        return "interrupted"
    if last.agent_state == AgentState.FINISHED:
        return "finished" if not last.exit_code else "failed"
    if last.agent_state == AgentState.PAUSED and last.reason in ("terminated", "killed", ""):
        return "interrupted"
    return last.reason or str(last.agent_state)


def _since_task(events: Sequence[Event], key: str) -> list[Event]:
    since: list[Event] = []
    for event in newest_first(events):
        since.append(event)
        if isinstance(event, MessageAction) and event.delegated == key:
            break
    return since[::-1]


def _difference(now: Metrics, before: Metrics) -> Metrics:
    return {
        model: {name: _less(value, before.get(model, {}), name) for name, value in used.items()}
        for model, used in now.items()
    }


def _less(
    value: float | int | None, before: Mapping[str, float | int | None], name: str
) -> float | int | None:
    earlier = before.get(name, 0)
    return None if value is None or earlier is None else value - earlier
