"""Choosing the models that can take a request, by its images and its length."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentcli.messages import Message, Request


@dataclass(frozen=True, slots=True)
class Route:
    """Full names of models in the order to ask them. `reason` says why the first is not the
    preferred model: images, too_long, or empty."""

    names: Sequence[str]
    reason: str = ""


class Router:
    """Routes the requests of a growing conversation, looking at each message only once."""

    def __init__(
        self,
        chain: Sequence[str],
        vision: Sequence[str],
        takes_images: Callable[[str], bool],
        context_tokens: Callable[[str], int],
    ) -> None:
        """Models are asked in the order of `chain`; `vision` replaces it when there are images and
        the first of `chain` is known to take none. `context_tokens` is called only if there is a
        choice."""
        self._chain = list(chain)
        self._vision = list(vision)
        self._takes_images = takes_images
        self._context_tokens = context_tokens
        self._windows: dict[str, int] = {}
        self._looked_at = 0
        self._last: Message | None = None
        self._with_images = False

    def route(self, request: Request) -> Route:
        names, reason = self._chain, ""
        if self._vision and not self._takes_images(names[0]) and self._has_images(request):
            seeing = [name for name in names if self._takes_images(name)]
            names, reason = list(dict.fromkeys([*self._vision, *seeing])), "images"
        if request.estimated_tokens and len(names) > 1:
            needed = request.estimated_tokens + request.max_output_tokens
            fitting = [name for name in names if self._window(name) >= needed]
            if fitting and fitting[0] != names[0]:
                reason = reason or "too_long"
            names = list(dict.fromkeys([*fitting, *names]))
        return Route(names, reason)

    def _has_images(self, request: Request) -> bool:
        messages = request.messages
        seen = self._looked_at
        if not 0 < seen <= len(messages) or messages[seen - 1] is not self._last:
            seen, self._with_images = 0, False
        self._with_images |= any(message.image_urls for message in messages[seen:])
        self._looked_at = len(messages)
        self._last = messages[-1] if messages else None
        return self._with_images

    def _window(self, name: str) -> int:
        if name not in self._windows:
            self._windows[name] = self._context_tokens(name)
        return self._windows[name]
