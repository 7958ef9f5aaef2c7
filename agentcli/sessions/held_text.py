"""Streamed text is passed on by whole words, as a secret may come in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from agentcli.events.progress import ReasoningDelta, TextDelta

_LONGEST_HELD = 400

Delta = TextDelta | ReasoningDelta


class HeldText:
    """Holds the last, unfinished word of a stream back; `redact` masks what is let go."""

    def __init__(self) -> None:
        self._held: Delta | None = None

    def add(self, delta: Delta, redact: Callable[[Any], Any]) -> Iterator[Delta]:
        held = self._held
        if held is not None and type(held) is type(delta):
            delta = replace(delta, text=held.text + delta.text)
        else:
            yield from self.release(redact)
        end = max(delta.text.rfind(" "), delta.text.rfind("\n")) + 1
        if len(delta.text) - end > _LONGEST_HELD:
            end = len(delta.text)
        self._held = replace(delta, text=delta.text[end:]) if end < len(delta.text) else None
        if end:
            yield replace(delta, text=redact(delta.text[:end]))

    def release(self, redact: Callable[[Any], Any]) -> Iterator[Delta]:
        held, self._held = self._held, None
        if held is not None:
            yield replace(held, text=redact(held.text))
