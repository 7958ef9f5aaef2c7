"""Choosing the models that can take a request, by its images and its length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentcli.messages import Request


@dataclass(frozen=True, slots=True)
class Route:
    """Full names of models in the order to ask them. `reason` says why the first is not the
    preferred model: images, too_long, or empty."""

    names: Sequence[str]
    reason: str = ""


@dataclass(frozen=True)
class Router:
    """Routes requests. Models are asked in the order of `chain`; `vision` replaces it when there
    are images and the first of `chain` is known to take none. `context_tokens` is called only if
    there is a choice."""

    chain: Sequence[str]
    vision: Sequence[str]
    takes_images: Callable[[str], bool]
    context_tokens: Callable[[str], int]

    def route(self, request: Request) -> Route:
        names, reason = self.chain, ""
        if self.vision and not self.takes_images(names[0]) and _has_images(request):
            seeing = [name for name in names if self.takes_images(name)]
            names, reason = list(dict.fromkeys([*self.vision, *seeing])), "images"
        if request.estimated_tokens and len(names) > 1:
            needed = request.estimated_tokens + request.max_output_tokens
            fitting = [name for name in names if self.context_tokens(name) >= needed]
            if fitting and fitting[0] != names[0]:
                reason = reason or "too_long"
            names = list(dict.fromkeys([*fitting, *names]))
        return Route(names, reason)


def _has_images(request: Request) -> bool:
    return any(message.image_urls for message in request.messages)
