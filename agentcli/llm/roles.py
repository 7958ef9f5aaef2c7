"""Which models do which work: each role has its own chain of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from agentcli.llm.catalog import Catalog
from agentcli.llm.client import ModelClient
from agentcli.llm.fallback import FallbackChain, Router
from agentcli.llm.registry import Providers
from agentcli.llm.wire_protocol import WireProtocol

if TYPE_CHECKING:
    from agentcli.settings import LLMSettings, Settings

ROLES = ("main", "condenser", "judge", "editor", "vision", "delegate")


class Roles:
    """Models by role. A role's chain is built when it is first requested, its models when they are
    first used; all share one price catalogue."""

    def __init__(
        self,
        registry: Providers,
        chains: Mapping[str, Sequence[str]],
        settings: LLMSettings,
        catalog: Catalog,
        context_tokens: int = 0,
    ) -> None:
        """`chains` maps roles to models, the preferred one first; a role without a chain uses that
        of `main`. `context_tokens`, if not 0, is the window of `main`'s preferred model. Raises
        ConfigError for a model of an unknown provider."""
        self._registry = registry
        self._settings = settings
        self.catalog = catalog
        self._context_tokens = context_tokens
        self._chains = {
            role: list(dict.fromkeys(registry.full_name(name) for name in names))
            for role, names in chains.items()
            if names
        }
        self._built: dict[str, FallbackChain] = {}

    @classmethod
    def of(cls, settings: Settings, registry: Providers, wanted: str) -> Roles:
        """Build the roles from the settings, with `wanted` as the preferred main model. Raises
        ConfigError when there is no main model."""
        chains = {"main": [registry.choose(wanted), *settings.model.fallback]}
        for role in type(settings.models).model_fields:
            names = getattr(settings.models, role)
            chains[role] = [names] if isinstance(names, str) else names
        given = {role: [name for name in names if name] for role, names in chains.items()}
        catalog = Catalog(settings.prices, registry.window)
        return cls(registry, given, settings.llm, catalog, settings.model.context_tokens)

    def chain(self, role: str) -> FallbackChain:
        """Return the chain of models for one of ROLES. Raises KeyError for any other role."""
        if role not in ROLES:
            raise KeyError(role)
        if role not in self._built:
            chain = self._chains.get(role) or self._chains["main"]
            vision = self._chains.get("vision", [])
            router = Router(chain, vision, self._takes_images, cache(self.window))
            self._built[role] = FallbackChain(chain[0], cache(self._build), router)
        return self._built[role]

    def _takes_images(self, name: str) -> bool:
        return name in self._chains.get("vision", []) or self._registry.takes_images(name)

    def window(self, name: str) -> int:
        """Return the window of the model `name` in tokens: by the settings, its server or the
        catalogue. May wait for the server."""
        if self._context_tokens and name == self._chains["main"][0]:
            return self._context_tokens
        return self.catalog.context_tokens(name)

    def _build(self, name: str) -> ModelClient:
        endpoint = replace(self._registry.endpoint(name), images=self._takes_images(name))
        self._registry.begin_asking(endpoint)

        def with_new_key() -> WireProtocol | None:
            nonlocal endpoint
            renewed = self._registry.renewed(endpoint)
            if renewed is None:
                return None
            endpoint = renewed
            return self._registry.protocol(endpoint)

        protocol = self._registry.protocol(endpoint)
        keep = partial(self._registry.keep, endpoint)
        look = partial(self._registry.facts, name)
        parts = (self._settings, self.catalog, with_new_key, keep, look)
        return ModelClient(protocol, name, *parts)
