"""Asking each provider that could work what it offers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any

from agentcli.errors import AgentError
from agentcli.llm.registry import BUILT_IN, Registry

_LIMIT_S = 10.0


@dataclass(frozen=True)
class Reach:
    """What one provider answered: the ids of its models, or in words why not."""

    provider: str
    models: tuple[str, ...] = ()
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def reachable(registry: Registry) -> Iterator[Reach]:
    """Each provider with a key or an address of the user's own, then local servers that answer."""
    quick = replace(registry, connect_timeout_s=_LIMIT_S, read_timeout_s=_LIMIT_S)
    with_key = [
        name
        for name, built_in in BUILT_IN.items()
        if built_in.default_model and registry.environ.get(built_in.key_env or "")
    ]
    own = [name for name in registry.configured if name not in BUILT_IN]
    names = with_key + own
    if names:
        with ThreadPoolExecutor(len(names)) as pool:
            yield from pool.map(lambda name: ask(quick, name), names)
    local: dict[str, list[str]] = {}
    for name in registry.local_models():
        provider, _, model = name.partition("/")
        local.setdefault(provider, []).append(model)
    yield from (Reach(provider, tuple(models)) for provider, models in local.items())


def ask(registry: Registry, name: str) -> Reach:
    """What the provider `name` answers when asked for its models."""
    try:
        provider = registry.provider(registry.endpoint(f"{name}/any"))
        provider.connect()
        try:
            return Reach(name, tuple(provider.models()))
        except AgentError:
            raise
        except Exception as error:
            raise provider.translate(error) from error
    except AgentError as error:
        return Reach(name, error=error.message)
