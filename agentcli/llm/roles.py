"""Which models do which work: each role has a chain of models that stand in for each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TYPE_CHECKING

from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.events import Event, Progress
from agentcli.events.observations import AttemptsAbandonedObservation, ModelSwitchedObservation
from agentcli.events.progress import Notice, ReplyAbandoned
from agentcli.llm.catalog import Catalog
from agentcli.llm.client import ModelClient
from agentcli.llm.registry import Providers
from agentcli.llm.spending import CallBudget
from agentcli.llm.wire_protocol import WireProtocol
from agentcli.messages import FinishReason, Message, Reply, Request, ToolChoice

if TYPE_CHECKING:
    from agentcli.settings import LLMSettings, Settings


_CORRECTION = "Answer with a tool call, not with text: one of the tools must be called."
_NOT_OF_THE_MODEL = {
    LLMErrorKind.CONTEXT_OVERFLOW,
    LLMErrorKind.CONTENT_POLICY,
    LLMErrorKind.BUDGET,
}
FALLBACK_ERRORS = frozenset(LLMErrorKind) - {
    *_NOT_OF_THE_MODEL,
    *(LLMErrorKind.MODEL_NOT_FOUND, LLMErrorKind.BAD_REQUEST),
}
"""Kinds of errors after which another model may succeed with the same request."""
_WHY = {
    "images": "{} takes no images; asking {}",
    "too_long": "too long for {}; asking {}",
    "main_again": "{} is done; back to {}",
}
RecordEvent = Callable[[Event], Event]
ROLES = ("main", "condenser", "judge", "editor", "vision", "delegate")


def enforce_tool_choice(
    request: Request, ask: Callable[[Request], Reply], notify: Callable[[Progress], None]
) -> Reply:
    """Return the reply of `ask`: without its calls where none are allowed, and asked for once more
    where a required call is missing; then the usage of both is counted. Raises LLMError when it is
    still missing."""
    reply = ask(request)
    if request.tool_choice is ToolChoice.NONE and reply.tool_calls:
        names = ", ".join(call.name for call in reply.tool_calls)
        notify(Notice(f"calls of {names} are ignored: none were allowed in this reply"))
        ended = reply.finish_reason is FinishReason.TOOL_CALLS
        return replace(
            reply,
            tool_calls=(),
            finish_reason=FinishReason.STOP if ended else reply.finish_reason,
            provider_data=None,
        )
    if request.tool_choice is not ToolChoice.REQUIRED or _is_acceptable(reply):
        return reply
    notify(ReplyAbandoned("a tool call was required"))
    said = [Message.assistant_message(reply.text)] if reply.text.strip() else []
    corrected = [*request.messages, *said, Message.user_message(_CORRECTION)]
    second = ask(replace(request, messages=corrected))
    if not _is_acceptable(second):
        raise LLMError(LLMErrorKind.BAD_RESPONSE, f"{second.model} calls no tool, although it must")
    costs = (reply.cost_usd, second.cost_usd)
    return replace(
        second,
        usage=reply.usage + second.usage,
        latency_s=reply.latency_s + second.latency_s,
        cost_usd=None if costs[0] is None or costs[1] is None else costs[0] + costs[1],
    )


def _is_acceptable(reply: Reply) -> bool:
    """Whether the reply has calls, or ended in a way that asking again would not change."""
    complete = (FinishReason.STOP, FinishReason.TOOL_CALLS)
    return bool(reply.tool_calls) or reply.finish_reason not in complete


@dataclass(frozen=True)
class Router:
    """Routes requests. Models are asked in the order of `chain`; `vision` replaces it when there
    are images and the first of `chain` is known to take none. `context_tokens` is called only if
    there is a choice."""

    chain: Sequence[str]
    vision: Sequence[str]
    takes_images: Callable[[str], bool]
    context_tokens: Callable[[str], int]

    def route(self, request: Request) -> tuple[Sequence[str], str]:
        """Return full names of models in the order to ask them, and why the first is not the
        preferred model: images, too_long, or empty."""
        names, reason = self.chain, ""
        if self.vision and not self.takes_images(names[0]) and request.has_images:
            seeing = [name for name in names if self.takes_images(name)]
            names, reason = list(dict.fromkeys([*self.vision, *seeing])), "images"
        if request.estimated_tokens and len(names) > 1:
            needed = request.estimated_tokens + request.max_output_tokens
            fitting = [name for name in names if self.context_tokens(name) >= needed]
            if fitting and fitting[0] != names[0]:
                reason = reason or "too_long"
            names = list(dict.fromkeys([*fitting, *names]))
        return names, reason


@dataclass
class FallbackChain:
    """Asks the models of a route in order. One that failed is skipped until the turn ends.

    `model` is the name of the preferred one. `client_of` returns the client of a model, always the
    same one, and raises ConfigError if its key is missing.
    """

    model: str
    client_of: Callable[[str], ModelClient]
    router: Router
    _failed: dict[str, LLMError] = field(default_factory=dict, init=False)
    _last: str = field(default="", init=False)
    """The model that was asked last."""

    def warm_up(self) -> None:
        """Connect to the preferred model in the background. Raises ConfigError if its key is
        missing."""
        self.client_of(self.model).warm_up()

    def begin_turn(self) -> None:
        """Try the preferred model first again."""
        self._failed.clear()

    def complete(
        self, request: Request, notify: Callable[[Progress], None], record: RecordEvent
    ) -> Reply:
        """Return a complete reply, which follows the request's tool choice, of the first model that
        gives one; `record` stores each switch.

        Raises LLMError when no model replies: the error of the first that failed, with a hint that
        names the others. A misconfigured model counts as a refused key.
        """
        names, reason = self.router.route(request)
        call_budget = CallBudget(request.budget_usd)
        left = [name for name in names if name not in self._failed]
        try:
            for name in left or names:
                try:
                    client = self.client_of(name)
                    self._switch(name, reason, record)
                    ask = partial(
                        client.complete, notify=notify, call_budget=call_budget, record=record
                    )
                    return enforce_tool_choice(request, ask, notify)
                except ConfigError as error:
                    if name == self.model:
                        raise _misconfigured(error) from error
                    self._failed[name] = _misconfigured(error)
                except LLMError as error:
                    # A stand-in may be misconfigured, but the preferred model may not: otherwise
                    # another model would do the work than the user believes.
                    stands_in = name != self.model and error.kind not in _NOT_OF_THE_MODEL
                    if not stands_in and error.kind not in FALLBACK_ERRORS:
                        raise
                    self._failed[name] = error
            (_, first), *others = self._failed.items()
            if others:
                tried = "\n".join(f"  {name}: {error.message}" for name, error in others)
                first.hint = f"{first.hint}\n  tried after it:\n{tried}".lstrip()
            raise first
        finally:
            if call_budget.lost_usd:
                record(AttemptsAbandonedObservation(most_usd=call_budget.lost_usd))

    def _switch(self, name: str, route_reason: str, record: RecordEvent) -> None:
        old, self._last = self._last or self.model, name
        if name == old:
            return
        if error := self._failed.get(old):
            reason = str(error.kind)
            message = f"{error.message}; going on with {name}"
        else:
            reason = route_reason or "main_again"
            message = _WHY[reason].format(old, name)
        record(
            ModelSwitchedObservation(from_model=old, to_model=name, reason=reason, content=message)
        )


def _misconfigured(error: ConfigError) -> LLMError:
    return LLMError(LLMErrorKind.AUTH, error.message, hint=error.hint)


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
