"""A chain of models: which of them can take a request, and who takes over when one can't answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.events import Event, Progress
from agentcli.events.observations import AttemptsAbandonedObservation, ModelSwitchedObservation
from agentcli.llm.client import ModelClient
from agentcli.llm.spending import CallBudget
from agentcli.llm.tool_choice import enforce_tool_choice
from agentcli.messages import Reply, Request

_NOT_OF_THE_MODEL = {
    LLMErrorKind.CONTEXT_OVERFLOW,
    LLMErrorKind.CONTENT_POLICY,
    LLMErrorKind.BUDGET,
}
_OF_THE_USER = {LLMErrorKind.MODEL_NOT_FOUND, LLMErrorKind.BAD_REQUEST}
FALLBACK_ERRORS = frozenset(LLMErrorKind) - _NOT_OF_THE_MODEL - _OF_THE_USER
"""Kinds of errors after which another model may succeed with the same request."""
_WHY = {
    "images": "{} takes no images; asking {}",
    "too_long": "too long for {}; asking {}",
    "main_again": "{} is done; back to {}",
}

RecordEvent = Callable[[Event], Event]


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
        self,
        request: Request,
        notify: Callable[[Progress], None],
        record: RecordEvent,
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
                    if not self._next_may_answer(name, error):
                        raise
                    self._failed[name] = error
            raise self._all_failed()
        finally:
            if call_budget.lost_usd:
                record(AttemptsAbandonedObservation(most_usd=call_budget.lost_usd))

    def _next_may_answer(self, name: str, error: LLMError) -> bool:
        """Whether the next model may take over. A stand-in may be misconfigured, but the preferred
        model may not: otherwise another model would do the work than the user believes."""
        stands_in = name != self.model and error.kind not in _NOT_OF_THE_MODEL
        return stands_in or error.kind in FALLBACK_ERRORS

    def _switch(self, name: str, route_reason: str, record: RecordEvent) -> None:
        old, self._last = self._last or self.model, name
        if name == old:
            return
        if error := self._failed.get(old):
            reason = str(error.kind)
            told = f"{error.message}; going on with {name}"
        else:
            reason = route_reason or "main_again"
            told = _WHY[reason].format(old, name)
        record(ModelSwitchedObservation(from_model=old, to_model=name, reason=reason, content=told))

    def _all_failed(self) -> LLMError:
        (_, first), *others = self._failed.items()
        if others:
            tried = "\n".join(f"  {name}: {error.message}" for name, error in others)
            first.hint = f"{first.hint}\n  tried after it:\n{tried}".lstrip()
        return first


def _misconfigured(error: ConfigError) -> LLMError:
    return LLMError(LLMErrorKind.AUTH, error.message, hint=error.hint)
