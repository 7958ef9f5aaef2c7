"""Puts a session's memory together, and condenses a session on request: a part of the wiring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.events import Event, Progress, Source
from agentcli.events.actions import CondensationAction, SystemMessageAction
from agentcli.events.observations import AttemptsAbandonedObservation
from agentcli.events.progress import Status
from agentcli.llm.catalog import Catalog
from agentcli.memory.building import Models, build_memory
from agentcli.memory.memory import Memory
from agentcli.memory.standing import TOKENS_AFTER, TOKENS_BEFORE
from agentcli.messages import Reply, Request, ToolSchema
from agentcli.security.redact import Redactor
from agentcli.sessions.session import Session, read_session
from agentcli.settings import Settings

if TYPE_CHECKING:
    from agentcli.agent.limits import Limits
    from agentcli.llm.models import LLMRegistry
    from agentcli.llm.registry import Registry
    from agentcli.sessions.state import State
    from agentcli.wiring import Wiring


def memory(
    settings: Settings,
    models: LLMRegistry,
    schemas: tuple[ToolSchema, ...],
    session: Session,
    limits: Limits,
) -> Memory:
    """What `session` shows the model. Raises ConfigError for settings that can't be."""
    return _memory(
        settings,
        models,
        schemas,
        _Desk(session.id, lambda: limits.left_usd(session.state), session.notify, session.emit),
    )


@dataclass(frozen=True)
class Compaction:
    """What `action` takes out of sight, tokens before and after it (estimates), and what the
    summary cost: USD, None when the price is not known. `action` None: there is nothing to take."""

    action: CondensationAction | None
    tokens_before: int = 0
    tokens_after: int = 0
    cost_usd: float | None = 0.0


def compact(wiring: Wiring, folder: Path, focus: str = "", *, preview: bool = False) -> Compaction:
    """Condense the session in `folder` but for its newest two steps, keeping what `focus` names.
    With `preview` nothing is recorded, and another process may hold the session; the summary is
    written, and paid for, all the same.

    Raises SessionError for a session that can't be read, UsageError for one that is in use,
    ConfigError when there is no model to ask.
    """
    redactor = Redactor()
    registry = wiring.registry(redactor.learn)
    redactor.learn(*registry.keys())
    if preview:
        record = read_session(folder)
        desk = _Desk(folder.name, lambda: _left_usd(wiring, record.state))
        made = _stored(wiring, registry, record.events, record.state, desk)
        return _told(made.compact(record.events, focus), redactor)
    with Session.open(folder) as session:
        session.redact = redactor
        desk = _Desk(
            session.id, lambda: _left_usd(wiring, session.state), session.notify, session.emit
        )
        made = _stored(wiring, registry, session.events, session.state, desk)
        return compact_open(session, made, focus)


def compact_open(session: Session, memory: Memory, focus: str = "") -> Compaction:
    """The same for a session that this process has open, with the memory it works with."""
    done = _told(memory.compact(session.events, focus))
    if done.action is not None:
        session.emit(done.action)
    return done


@dataclass(frozen=True)
class _Desk:
    """Where a summariser works: for which session, on what is left of its budget, who is told of
    the progress, and who keeps what must be kept. By default nobody and nothing."""

    session_id: str
    left_usd: Callable[[], float | None]
    notify: Callable[[Progress], None] = lambda progress: None
    record: Callable[[Event], Event] = lambda event: event


def _memory(
    settings: Settings, models: LLMRegistry, schemas: tuple[ToolSchema, ...], desk: _Desk
) -> Memory:
    main, chain = models.part("main"), models.part("condenser")

    def quietly(progress: Progress) -> None:
        # What the summariser writes is nothing the agent says.
        if isinstance(progress, Status):
            desk.notify(progress)

    def keep(event: Event) -> Event:
        # A session's state and model are those of the main part.
        return desk.record(event) if isinstance(event, AttemptsAbandonedObservation) else event

    def ask(request: Request) -> Reply:
        desk.notify(Status("thinking", "older work is being summed up"))
        chain.begin_turn()
        asked = replace(request, session_id=desk.session_id, budget_usd=desk.left_usd())
        return chain.complete(asked, quietly, keep)

    names = Models(
        main.model,
        chain.model,
        settings.model.output_tokens,
        settings.model.context_tokens,
    )
    return build_memory(settings.memory, schemas, names, Catalog(settings.prices), ask)


def _stored(
    wiring: Wiring, registry: Registry, events: Sequence[Event], state: State, desk: _Desk
) -> Memory:
    """The memory of a session that nothing works on, with its own model and tools."""
    stored = next((e for e in events if isinstance(e, SystemMessageAction)), None)
    schemas = tuple(ToolSchema(**schema) for schema in stored.tools) if stored else ()
    return _memory(wiring.settings, wiring.models(registry, state.model), schemas, desk)


def _left_usd(wiring: Wiring, state: State) -> float | None:
    return wiring.limits(state).left_usd(state)


def _told(action: CondensationAction | None, redactor: Redactor | None = None) -> Compaction:
    if action is None:
        return Compaction(None)
    paid = action.llm_metrics
    summary = redactor.text(action.summary) if redactor and action.summary else action.summary
    return Compaction(
        action.model_copy(update={"source": Source.USER, "summary": summary}),
        int(action.numbers.get(TOKENS_BEFORE, 0)),
        int(action.numbers.get(TOKENS_AFTER, 0)),
        paid.cost_usd if paid is not None else 0.0,
    )
