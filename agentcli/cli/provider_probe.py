"""Ask each provider that could work which models it offers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal

from agentcli.errors import AgentError, LLMError, LLMErrorKind, internal_errors
from agentcli.llm.catalog import Catalog
from agentcli.llm.client import ModelClient
from agentcli.llm.provider import Facts, known_providers
from agentcli.llm.registry import Providers
from agentcli.llm.spending import CallBudget
from agentcli.messages import Message, Request
from agentcli.settings import LLMSettings, PriceSettings
from agentcli.ui.summary import quantity

_LIMIT_S = 10.0
_ANSWER_LIMIT_S = 60.0
_ANSWER_TOKENS = 64
"""Enough for a word; a reply that is cut off there counts as an answer too."""

Outcome = Literal["works", "refused", "no_credit", "unreachable", "failed"]

_OUTCOMES: dict[LLMErrorKind, Outcome] = {
    LLMErrorKind.AUTH: "refused",
    LLMErrorKind.AUTH_PERMANENT: "refused",
    LLMErrorKind.BILLING: "no_credit",
    LLMErrorKind.CONNECTION: "unreachable",
    LLMErrorKind.NOT_RUNNING: "unreachable",
    LLMErrorKind.TIMEOUT: "unreachable",
    LLMErrorKind.STALLED: "unreachable",
}
_WORDS: dict[Outcome, str] = {
    "refused": "the key is refused: ",
    "no_credit": "the account has no credit: ",
}
"""Words put before the provider's own."""


@dataclass(frozen=True)
class ProviderAnswer:
    """What one provider answered: the ids of its models, or why there are none."""

    provider: str
    models: tuple[str, ...] = ()
    error: str = ""
    standing: Outcome = "works"


def probe_providers(registry: Providers) -> Iterator[ProviderAnswer]:
    """Ask each provider with a key or an address set by the user, then the local servers."""
    quick = replace(registry, connect_timeout_s=_LIMIT_S, read_timeout_s=_LIMIT_S)
    with_key = [
        name
        for name, provider in known_providers().items()
        if (provider.default_model or provider.address_env) and registry.has_key(name)
    ]
    own = [name for name in registry.configured if name not in known_providers()]
    names = with_key + own
    if names:
        with ThreadPoolExecutor(len(names)) as pool:
            yield from pool.map(lambda name: probe_provider(quick, name), names)
    for provider, models in local_models(registry).items():
        yield ProviderAnswer(provider, tuple(models))


def local_models(registry: Providers) -> dict[str, list[str]]:
    """Return the models of the local servers that answer, by provider."""
    found: dict[str, list[str]] = {}
    for name in registry.local_models():
        provider, _, model = name.partition("/")
        found.setdefault(provider, []).append(model)
    return found


def told_facts(registry: Providers, answers: Sequence[ProviderAnswer]) -> Mapping[str, Facts]:
    """Return what the servers that `answers` came from say of their models, by full names, as far
    as only they can say it."""
    with ThreadPoolExecutor(max(len(answers), 1)) as pool:
        said = pool.map(lambda each: registry.all_facts(each.provider, each.models), answers)
        return {name: facts for found in said for name, facts in found.items()}


def catalog_with(prices: Mapping[str, PriceSettings], told: Mapping[str, Facts]) -> Catalog:
    """Return a catalogue with the context windows that servers reported."""
    return Catalog(prices, lambda name: told[name].window if name in told else 0)


def model_facts(catalog: Catalog, name: str) -> tuple[str, str, str]:
    """Return the context window in tokens and the USD per million tokens of input and of output;
    "-" if unknown."""
    window = catalog.known_context_tokens(name)
    prices = catalog.per_million(name)
    costs = [f"{usd:.4g}" for usd in prices] if prices else ["-", "-"]
    return (quantity(window) if window else "-", costs[0], costs[1])


def probe_provider(registry: Providers, name: str) -> ProviderAnswer:
    """Ask the provider `name` for its models."""
    try:
        # An outside package's protocol may raise anything.
        with internal_errors(lambda error: AgentError(f"{type(error).__name__}: {error}")):
            protocol = registry.protocol(registry.endpoint(f"{name}/any"))
            protocol.connect()
            models = tuple(protocol.models())
    except AgentError as error:
        return _failed(name, error)
    return ProviderAnswer(name, models)


def try_model(registry: Providers, name: str, catalog: Catalog) -> ProviderAnswer:
    """Check that the model `name` really answers, by asking once for a word."""
    waits = LLMSettings(retries=0, first_byte_s=_ANSWER_LIMIT_S, gap_s=_ANSWER_LIMIT_S)
    request = Request([Message.user_message("Say OK.")], max_output_tokens=_ANSWER_TOKENS)
    try:
        llm = ModelClient(registry.protocol(registry.endpoint(name)), name, waits, catalog)
        llm.complete(request, lambda progress: None, CallBudget(None), lambda event: event)
    except AgentError as error:
        return _failed(name, error)
    return ProviderAnswer(name, (name,))


def _failed(name: str, error: AgentError) -> ProviderAnswer:
    kind = error.kind if isinstance(error, LLMError) else LLMErrorKind.UNKNOWN
    standing = _OUTCOMES.get(kind, "failed")
    return ProviderAnswer(name, (), _WORDS.get(standing, "") + error.message, standing)
