"""State: what is known of a session without reading its history, folded from its events.

`state.pkl` caches it. The file is a digest followed by a pickle of plain data. The unpickler
refuses every global, so a hostile file can at worst be ignored.
"""

from __future__ import annotations

import hashlib
import io
import json
import pickle
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from enum import StrEnum
from functools import reduce
from pathlib import Path
from typing import Any, NoReturn

from agentcli.events import Event, LLMMetrics, Source
from agentcli.events.actions import MessageAction, RenameAction
from agentcli.events.observations import (
    AgentStateChangedObservation,
    AttemptsAbandonedObservation,
    DecisionObservation,
    DelegateObservation,
    DelegateStartedObservation,
    ErrorObservation,
    ModelSwitchedObservation,
    RequirementJudgedObservation,
    RequirementsObservation,
    SessionStartedObservation,
)
from agentcli.sessions.folder import trusted
from agentcli.workspace.private import read_regular, replace_atomically

STATE_VERSION = 1
_MAX_STATE_BYTES = 64 * 1024 * 1024
_DIGEST_BYTES = 32
_DAMAGED = (
    *(pickle.UnpicklingError, ArithmeticError, AttributeError, EOFError, ImportError, LookupError),
    *(MemoryError, RecursionError, TypeError, ValueError),
)
"""Errors from unpickling and checking a file that `save_state` didn't write."""


class AgentState(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    AWAITING_USER_INPUT = "awaiting_user_input"
    AWAITING_USER_CONFIRMATION = "awaiting_user_confirmation"
    USER_CONFIRMED = "user_confirmed"
    USER_REJECTED = "user_rejected"
    PAUSED = "paused"
    FINISHED = "finished"
    ERROR = "error"
    RATE_LIMITED = "rate_limited"


Metrics = dict[str, dict[str, float | int | None]]
"""Usage by model: replies, tokens, `cost_usd`, `latency_s`."""

_RESTING = frozenset(
    {
        AgentState.IDLE,
        AgentState.AWAITING_USER_INPUT,
        AgentState.PAUSED,
        AgentState.FINISHED,
        AgentState.ERROR,
    }
)
_ANSWERED = frozenset({AgentState.USER_CONFIRMED, AgentState.USER_REJECTED})
_BROKEN_OFF = frozenset({AgentState.PAUSED, AgentState.ERROR})

TRANSITIONS: dict[AgentState, frozenset[AgentState]] = {
    **{state: frozenset({AgentState.RUNNING}) for state in _RESTING},
    AgentState.RUNNING: (_RESTING - {AgentState.IDLE})
    | {AgentState.AWAITING_USER_CONFIRMATION, AgentState.RATE_LIMITED},
    AgentState.AWAITING_USER_CONFIRMATION: _ANSWERED | {AgentState.RUNNING} | _BROKEN_OFF,
    **{
        state: frozenset({AgentState.RUNNING}) | _BROKEN_OFF
        for state in (*_ANSWERED, AgentState.RATE_LIMITED)
    },
}
"""Which state may follow which. A turn runs until it rests. On the way it may wait for a user's
answer (confirmation, then what they said) or for a provider (rate_limited); from there it can only
go on or be broken off."""


@dataclass(frozen=True)
class State:
    """Counters cover the whole session, `local_iteration` only this turn; costs are in USD.

    `metrics` has one entry per model: tokens, cost and replies; `cost_usd` is None for a model
    whose price is unknown. `parts` has the same for each role of a model: `parts["main"][model]`.
    """

    session_id: str = ""
    agent_state: AgentState = AgentState.IDLE
    resume_state: AgentState | None = None
    iteration: int = 0
    local_iteration: int = 0
    error: str | None = None
    last_error: str | None = None
    created_at: str = ""
    updated_at: str = ""
    agent_name: str = "CodeAgent"
    delegate_level: int = 0
    parent_id: str | None = None
    start_id: int = 0
    end_id: int = -1
    metrics: Metrics = field(default_factory=dict)
    parts: dict[str, Metrics] = field(default_factory=dict)
    max_budget_usd: float | None = None
    abandoned_usd: float = 0.0
    """The most that interrupted requests may have cost, including those of children."""
    children: dict[str, Metrics] = field(default_factory=dict)
    """What each child and its own children used, by the child's session; empty for a child that has
    not reported yet."""
    grants: tuple[str, ...] = ()
    title: str = ""
    name: str | None = None
    model: str = ""
    workspace: str = ""
    bad_calls: int = 0
    """Consecutive replies with tool calls that could not be understood."""
    bad_calls_at: int = -1
    """The iteration that `bad_calls` last counted."""
    bad_replies: int = 0
    """Consecutive replies that were empty or cut off."""
    exit_code: int | None = None
    required: dict[str, Any] = field(default_factory=dict)
    """The requirements of the work, as in RequirementsObservation; empty if there are none."""
    required_at: int = -1
    unmet: dict[str, int] = field(default_factory=dict)
    """How often each requirement was not met."""
    schema_version: int = STATE_VERSION

    def total(self, name: str) -> float | int:
        """Sum one metric over all models, including children and leaving out unknown values."""
        return sum(entry.get(name) or 0 for entry in self._entries())

    def _entries(self) -> Iterator[dict[str, float | int | None]]:
        for metrics in (self.metrics, *self.children.values()):
            yield from metrics.values()

    @property
    def delegated_by(self) -> str | None:
        """The session that delegated this one, if it is a child."""
        return self.parent_id if self.delegate_level else None

    @property
    def metrics_with_children(self) -> Metrics:
        """Usage by model, including children."""
        return reduce(_merged, self.children.values(), self.metrics)

    @property
    def local_workspace(self) -> Path | None:
        """The workspace, if it is a folder on this machine."""
        folder = Path(self.workspace)
        return folder if folder.is_absolute() and folder.is_dir() else None

    @property
    def cost_usd(self) -> float | None:
        """The cost including children; None when the price of any model used is unknown."""
        costs = [entry.get("cost_usd") for entry in self._entries()]
        return None if None in costs else float(sum(cost or 0 for cost in costs))


def apply(state: State, event: Event) -> State:
    """Return the state after `event`. Pure and total: any sequence of events can be folded."""
    changes: dict[str, Any] = {"end_id": event.id, "updated_at": event.timestamp.isoformat()}
    if event.reply is not None and event.reply.index == 0:
        changes["iteration"] = state.iteration + 1
        changes["local_iteration"] = state.local_iteration + 1
    if event.llm_metrics is not None:
        part = event.llm_metrics.part
        used = _add_metrics(state.parts.get(part, {}), event.llm_metrics)
        changes["metrics"] = _add_metrics(state.metrics, event.llm_metrics)
        changes["parts"] = {**state.parts, part: used}
    changes.update(_changes(state, event))
    if isinstance(event, DelegateStartedObservation | DelegateObservation):
        changes.update(_of_child(state, event))
    changes.update(_of_requirements(state, event))
    return replace(state, **changes)


def _changes(state: State, event: Event) -> dict[str, Any]:
    match event:
        case SessionStartedObservation():
            return {
                "session_id": event.session_id,
                "workspace": event.workspace,
                "model": event.model,
                "name": event.name or (None if event.forked_from else state.name),
                "parent_id": event.forked_from or event.parent or state.parent_id,
                **_role(event, state),
                "max_budget_usd": state.max_budget_usd
                if event.forked_from
                else event.max_budget_usd,
                "created_at": state.created_at or event.timestamp.isoformat(),
            }
        case AttemptsAbandonedObservation():
            return {"abandoned_usd": state.abandoned_usd + event.most_usd}
        case ModelSwitchedObservation(reason="chosen"):
            return {"model": event.to_model}
        case RenameAction():
            return {"name": event.name}
        case MessageAction(source=Source.USER):
            title = state.title or event.message[:80]
            return {"local_iteration": 0, "title": title, "bad_calls": 0, "bad_replies": 0}
        case AgentStateChangedObservation() if event.agent_state in list(AgentState):
            agent_state = AgentState(event.agent_state)
            failed = agent_state is AgentState.ERROR
            return {
                "agent_state": agent_state,
                "resume_state": state.agent_state,
                "error": event.content if failed else None,
                "exit_code": event.exit_code,
            }
        case DecisionObservation(grant=str() as grant):
            return {"grants": state.grants if grant in state.grants else (*state.grants, grant)}
        case ErrorObservation(error_id="invalid_tool_call"):
            counted = state.bad_calls_at == state.iteration
            return {
                "last_error": event.content,
                "bad_calls": state.bad_calls + (not counted),
                "bad_calls_at": state.iteration,
                "bad_replies": 0,
            }
        case ErrorObservation(error_id="unusable_reply"):
            return {"last_error": event.content, "bad_replies": state.bad_replies + 1}
        case ErrorObservation():
            return {"last_error": event.content, "bad_calls": 0, "bad_replies": 0}
    return {"bad_calls": 0, "bad_replies": 0} if event.cause is not None else {}


def _of_requirements(state: State, event: Event) -> dict[str, Any]:
    """Requirements hold until the user says something else; a message sent to a running turn does
    not count."""
    match event:
        case RequirementsObservation():
            wanted = event.model_dump(include={"tests", "check", "retries", "answer_schema"})
            return {"required": wanted, "required_at": event.id, "unmet": {}}
        case RequirementJudgedObservation(met=False):
            times = state.unmet.get(event.requirement, 0) + 1
            return {"unmet": {**state.unmet, event.requirement: times}}
        case MessageAction(source=Source.USER, delivery=None):
            if state.required and state.required_at != event.id - 1:
                return {"required": {}, "unmet": {}}
    return {}


def _of_child(
    state: State, event: DelegateStartedObservation | DelegateObservation
) -> dict[str, Any]:
    known = state.children.get(event.session_id, {})
    if isinstance(event, DelegateStartedObservation):
        return {"children": {**state.children, event.session_id: known}}
    return {
        "children": {**state.children, event.session_id: _merged(known, event.metrics)},
        "abandoned_usd": state.abandoned_usd + event.abandoned_usd,
    }


def _role(event: SessionStartedObservation, state: State) -> dict[str, Any]:
    """Return the child's role, if it is a child. A user's fork of a child is nobody's child."""
    if event.forked_from:
        return {"delegate_level": 0}
    if event.parent is None:
        return {}
    return {"delegate_level": event.delegate_level, "agent_name": event.agent}


def _add_metrics(metrics: Metrics, new: LLMMetrics) -> Metrics:
    old = metrics.get(new.model, {"replies": 0, "cost_usd": 0.0})
    added = new.model_dump(exclude={"model", "part", "time_to_first_token_s"})
    return {**metrics, new.model: _added(old, {"replies": 1, **added})}


def _merged(old: Metrics, more: Metrics) -> Metrics:
    return {**old, **{model: _added(old.get(model, {}), used) for model, used in more.items()}}


def _added(
    old: Mapping[str, float | int | None], more: Mapping[str, float | int | None]
) -> dict[str, float | int | None]:
    """Return the sums; a sum with an unknown part is unknown."""
    merged: dict[str, float | int | None] = {}
    for name, value in more.items():
        before = old.get(name, 0)
        merged[name] = None if value is None or before is None else before + value
    return merged


def fold(events: Iterable[Event], state: State | None = None) -> State:
    state = state or State()
    for event in events:
        state = apply(state, event)
    return state


def save_state(path: Path, state: State) -> None:
    """Replace the cache at `path` as a whole. Raises OSError."""
    body = pickle.dumps(as_plain(state), protocol=5)
    replace_atomically(path, hashlib.sha256(body).digest(), body)


def load_state(path: Path) -> State | None:
    """Return the cached state, or None if there is any doubt: it is absent, foreign, writable by
    others, damaged, of another version, or holds anything but plain data."""
    try:
        data, status = read_regular(path, _MAX_STATE_BYTES)
    except OSError:
        return None
    if not trusted(status):
        return None
    digest, body = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        return None
    try:
        values = _PlainUnpickler(io.BytesIO(body)).load()
    except _DAMAGED:
        return None
    return from_plain(values)


def as_plain(state: State) -> dict[str, Any]:
    """Return the state as dicts, lists, texts and numbers only."""
    plain: dict[str, Any] = json.loads(json.dumps(asdict(state)))
    return plain


def from_plain(values: Any) -> State | None:
    """Return the state that `as_plain` turned into `values`; None for another version or anything
    else."""
    try:
        if not isinstance(values, dict) or values.get("schema_version") != STATE_VERSION:
            return None
        values["agent_state"] = AgentState(values["agent_state"])
        resume_state = values["resume_state"]
        values["resume_state"] = AgentState(resume_state) if resume_state else None
        values["grants"] = tuple(values["grants"])
        return State(**values) if set(values) == {f.name for f in fields(State)} else None
    except _DAMAGED:
        return None


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"state holds plain data only, not {module}.{name}")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise pickle.UnpicklingError("state holds no persistent ids")
