"""What a session may cost, and which prices it needs to know to enforce that."""

from __future__ import annotations

from agentcli.agent.run_limits import Limits
from agentcli.llm.catalog import Catalog
from agentcli.llm.roles import Roles
from agentcli.llm.spending import require_bounds, require_price, spent_usd
from agentcli.sessions.state import State
from agentcli.settings import Settings


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
