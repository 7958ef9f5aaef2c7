"""Builds a session's memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from agentcli.app.side_models import costs_only
from agentcli.events import Progress
from agentcli.events.progress import Status
from agentcli.llm.catalog import Catalog
from agentcli.memory import building
from agentcli.memory.building import ModelNames
from agentcli.memory.memory import Memory
from agentcli.messages import Reply, Request, ToolSchema
from agentcli.sessions.session import Session
from agentcli.settings import Settings

if TYPE_CHECKING:
    from agentcli.agent.run_limits import Limits
    from agentcli.llm.roles import Roles


def build_memory(
    settings: Settings,
    models: Roles,
    schemas: tuple[ToolSchema, ...],
    session: Session,
    limits: Limits,
) -> Memory:
    """Return the memory of `session`. Raises ConfigError for settings that are not possible."""
    chain = models.chain("condenser")

    def quietly(progress: Progress) -> None:
        # The agent must not seem to say what the summariser writes.
        if isinstance(progress, Status):
            session.notify(progress)

    def ask(request: Request, unrecorded_usd: float) -> Reply:
        session.notify(Status("thinking", "summing up older work"))
        chain.begin_turn()
        left = limits.left_usd(session.state)
        left = None if left is None else left - unrecorded_usd
        asked = replace(request, session_id=session.id, budget_usd=left)
        return chain.complete(asked, quietly, costs_only(session))

    names, catalog = _names(settings, models), Catalog(settings.prices)
    return building.build_memory(settings.memory, schemas, names, catalog, ask, session.emit)


def check(settings: Settings, models: Roles) -> None:
    """Raise ConfigError for settings that are not possible."""
    catalog = Catalog(settings.prices)
    building.build_memory(settings.memory, (), _names(settings, models), catalog, None)


def _names(settings: Settings, models: Roles) -> ModelNames:
    return ModelNames(
        models.chain("main").model,
        models.chain("condenser").model,
        settings.model.output_tokens,
        settings.model.context_tokens,
    )
