"""Condenses a session on request, whether it is stored or open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.agent import Hooks
from agentcli.app.containment import TMP_FOLDER
from agentcli.app.hooks import session_hooks
from agentcli.app.models import SideModels
from agentcli.app.open_session import OpenSession
from agentcli.app.resume import stored_schemas, system_message
from agentcli.errors import SessionError
from agentcli.events import Source
from agentcli.events.actions import CondensationAction
from agentcli.llm.roles import Roles
from agentcli.memory.memory import Memory, failed_condensation
from agentcli.memory.view import TOKENS_AFTER, TOKENS_BEFORE
from agentcli.security.redact import Redactor, masked_values
from agentcli.sessions.session import SessionLog

if TYPE_CHECKING:
    from agentcli.app.agent_builder import AgentBuilder
    from agentcli.llm.registry import Providers


@dataclass(frozen=True)
class Compaction:
    """What `action` takes out of sight, the tokens before and after it (estimates), and the cost of
    the summary in USD, None if the price is unknown. `action` None: there is nothing to take
    out."""

    action: CondensationAction | None
    tokens_before: int = 0
    tokens_after: int = 0
    cost_usd: float | None = 0.0


def compact(
    builder: AgentBuilder, folder: Path, focus: str = "", *, preview: bool = False
) -> Compaction:
    """Condense the session in `folder` except for its newest two steps, keeping what `focus` names.
    With `preview` the model goes on seeing what it saw before; the summary is written all the same,
    and its cost is recorded.

    Raises SessionError if the session can't be read, or a hook postpones it; UsageError if it is in
    use; ConfigError if there is no model to ask.
    """
    redactor = Redactor(masked_values(builder.environ))
    registry = builder.registry(redactor)
    with SessionLog.open(folder) as session:
        session.redact = redactor
        hooks = None if preview else _hooks(builder, session)
        memory = _stored(builder, registry, session)
        return _compact(session, memory, hooks, focus, preview=preview)


def compact_open(opened: OpenSession, focus: str = "") -> Compaction:
    """Condense an open session, as `compact` does. Raises SessionError if a hook postpones it, and
    TurnInterrupted."""
    return _compact(opened.session, opened.agent.memory, opened.hooks, focus)


def _compact(
    session: SessionLog, memory: Memory, hooks: Hooks | None, focus: str, *, preview: bool = False
) -> Compaction:
    if hooks is not None and (why := hooks.compacting(session, "asked_for")):
        raise SessionError(f"a hook postponed the compaction: {why}")
    done = _told(memory.compact(session.events, focus), session.redact)
    if done.action is not None and not preview:
        session.emit(done.action)
    elif done.action is not None and done.action.llm_metrics is not None:
        paid = {"llm_metrics": done.action.llm_metrics}
        session.emit(failed_condensation("it was a preview").model_copy(update=paid))
    return done


def _hooks(builder: AgentBuilder, session: SessionLog) -> Hooks | None:
    """Return the hooks for compacting a session that is not at work."""
    if not builder.settings.hooks.PreCompact:
        return None
    (session.folder / TMP_FOLDER).mkdir(mode=0o700, exist_ok=True)
    containment = builder.session_containment(session.folder, before=())
    return session_hooks(containment, builder.project_hooks)


def _stored(builder: AgentBuilder, registry: Providers, session: SessionLog) -> Memory:
    """Return the memory of a session that is not at work, with its own model and tools."""
    stored = system_message(session.events)
    schemas = stored_schemas(stored)
    models = Roles.of(builder.settings, registry, session.state.model)
    limits = builder.limits(session.state)
    return SideModels(builder.settings, models, session, limits).memory(schemas)


def _told(action: CondensationAction | None, redact: Callable[[Any], Any]) -> Compaction:
    if action is None:
        return Compaction(None)
    paid = action.llm_metrics
    summary = redact(action.summary) if action.summary else action.summary
    return Compaction(
        action.model_copy(update={"source": Source.USER, "summary": summary}),
        int(action.numbers.get(TOKENS_BEFORE, 0)),
        int(action.numbers.get(TOKENS_AFTER, 0)),
        paid.cost_usd if paid is not None else 0.0,
    )
