"""The providers under these settings, the models of a session besides the main one, and what all of
them may cost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from agentcli.agent.ending import Limits
from agentcli.app.configuration.places import stored_keys
from agentcli.errors import LLMError, LLMErrorKind
from agentcli.events import Event, LLMMetrics, Progress
from agentcli.events.observations import (
    AttemptsAbandonedObservation,
    RiskJudgedObservation,
    TextMergedObservation,
)
from agentcli.events.progress import Status
from agentcli.llm.catalog import Catalog
from agentcli.llm.probing import Findings
from agentcli.llm.registry import Providers
from agentcli.llm.roles import Roles
from agentcli.llm.spending import require_bounds, require_price, spent_usd
from agentcli.memory.memory import Memory, ModelNames, build_memory
from agentcli.messages import Message, Reply, Request, ToolSchema
from agentcli.security.redact import Redactor
from agentcli.sessions.session import SessionLog
from agentcli.sessions.state import State
from agentcli.settings import Settings
from agentcli.system.homes import state_home

_MOST_JUDGE_TOKENS = 1_024
"""Enough for one line, and for the reasoning before it."""


@dataclass(frozen=True)
class SideModels:
    """Asks the models of a session that judge risks, merge edits and sum up. The session records
    what that costs, and `limits` bounds it."""

    settings: Settings
    models: Roles
    session: SessionLog
    limits: Limits

    def judge(self, prompt: str) -> str:
        """Return how risky an action is, in the judge's words. Raises LLMError."""
        reply = self._answer("judge", "judging the risk", prompt, _MOST_JUDGE_TOKENS)
        cost = LLMMetrics.of(reply, "judge")
        self.session.emit(RiskJudgedObservation(content=reply.text, llm_metrics=cost))
        return reply.text

    def merge_edit(self, prompt: str) -> str:
        """Return the lines into which the editor merged the sketch of an edit. Raises LLMError."""
        most = self.settings.model.output_tokens
        reply = self._answer("editor", "merging an edit", prompt, most)
        self.session.emit(TextMergedObservation(llm_metrics=LLMMetrics.of(reply, "editor")))
        if reply.finish_reason == "length":
            raise LLMError(LLMErrorKind.BAD_RESPONSE, "its answer was cut off")
        return reply.text

    def memory(
        self,
        schemas: tuple[ToolSchema, ...],
        limit_results: Callable[[int, int], None] = lambda one, together: None,
    ) -> Memory:
        """Build the session's memory, which has older work summed up (`limit_results`: see Memory).
        Raises ConfigError for settings that are not possible."""
        names, catalog = _names(self.settings, self.models), self.models.catalog
        memory, record = self.settings.memory, self.session.emit
        return build_memory(memory, schemas, names, catalog, self._sum_up, record, limit_results)

    def _answer(self, role: str, doing: str, prompt: str, most_tokens: int) -> Reply:
        request = Request([Message.user_message(prompt)], (), max_output_tokens=most_tokens)
        return self._complete(role, doing, request, lambda progress: None)

    def _sum_up(self, request: Request, unrecorded_usd: float) -> Reply:
        def quietly(progress: Progress) -> None:
            # The agent must not seem to say what the summariser writes.
            if isinstance(progress, Status):
                self.session.notify(progress)

        return self._complete(
            "condenser", "summing up older work", request, quietly, unrecorded_usd
        )

    def _complete(
        self,
        role: str,
        doing: str,
        request: Request,
        notify: Callable[[Progress], None],
        unrecorded_usd: float = 0.0,
    ) -> Reply:
        session, chain = self.session, self.models.chain(role)
        session.notify(Status("thinking", doing))
        chain.begin_turn()
        left = self.limits.left_usd(session.state)
        left = None if left is None else left - unrecorded_usd
        asked = replace(request, session_id=session.id, budget_usd=left)
        return chain.complete(asked, notify, self._record_costs)

    def _record_costs(self, event: Event) -> Event:
        """Record only what is about money: the session's state and model follow the main role."""
        is_cost = isinstance(event, AttemptsAbandonedObservation)
        return self.session.emit(event) if is_cost else event


def check_memory(settings: Settings, models: Roles) -> None:
    """Raise ConfigError for settings of the memory that are not possible."""
    build_memory(settings.memory, (), _names(settings, models), models.catalog, None)


def _names(settings: Settings, models: Roles) -> ModelNames:
    return ModelNames(
        models.chain("main").model,
        models.chain("condenser").model,
        settings.model.output_tokens,
        settings.model.context_tokens,
    )


def limits_of(settings: Settings, budget_usd: float | None) -> Limits:
    """Return the limits of a session; `budget_usd` is for it and its children, None: no limit."""
    catalog = Catalog(settings.prices)
    return Limits(
        settings.agent,
        budget_usd,
        lambda state: spent_usd(state.metrics_with_children, catalog),
    )


_ASKED = ("main", "condenser", "judge", "editor")


def require_prices(
    settings: Settings, models: Roles, state: State, budget_usd: float | None
) -> None:
    """Raise ConfigError if there is a budget but no way to tell how much of it is spent."""
    if budget_usd is None:
        return
    catalog = Catalog(settings.prices)
    asked = [models.chain(name).model for name in _ASKED]
    for name in asked:
        require_price(catalog, name)
    spent_usd(state.metrics_with_children, catalog)
    for name in (*asked, *settings.model.fallback):
        if options := settings.providers.get(name.partition("/")[0]):
            require_bounds(name, options.extra_body, options.drop_params)


def providers_of(settings: Settings, environ: Mapping[str, str], redactor: Redactor) -> Providers:
    """Return the providers; `redactor` learns each key that will be used."""
    kept = stored_keys(environ)
    exported = {name: value for name, value in environ.items() if value}
    registry = Providers(
        settings.providers,
        {**kept.values, **exported},
        redactor.learn,
        key_fault=kept.fault and f"{kept.fault}\n  ",
        findings=Findings(state_home(environ) / "endpoints"),
        connect_timeout_s=settings.llm.connect_s,
        read_timeout_s=max(settings.llm.first_byte_s, settings.llm.gap_s) + 5,
    )
    redactor.learn(*registry.keys())
    return registry
