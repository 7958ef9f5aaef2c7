"""Text that comes in pieces is masked as a whole: a secret may be broken over several of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolOutput

Piece = TextDelta | ReasoningDelta | ToolOutput


class Redactor(Protocol):
    def __call__(self, data: Any) -> Any:
        """JSON data with the secrets in it masked at any depth; the same object when there are
        none."""

    def settled(self, text: str) -> int:
        """How much of `text`, the newest part of a stream, can be masked and passed on."""


class NoSecrets:
    """Masks nothing."""

    def __call__(self, data: Any) -> Any:
        return data

    def settled(self, text: str) -> int:
        return len(text)


class HeldText:
    """Holds the end of a stream back while a secret may have begun in it."""

    def __init__(self) -> None:
        self._held: Piece | None = None

    def add(self, piece: Piece, redact: Redactor) -> Iterator[Piece]:
        """What can be passed on by now, of `piece` and what was held. An empty piece, which tells
        that time passes, always can."""
        held, tells_time = self._held, not piece.text
        if held is not None and _stream(held) == _stream(piece):
            piece = replace(piece, text=held.text + piece.text)
        else:
            yield from self.release(redact)
        end = redact.settled(piece.text)
        self._held = replace(piece, text=piece.text[end:]) if end < len(piece.text) else None
        if end or tells_time:
            yield replace(piece, text=redact(piece.text[:end]))

    def release(self, redact: Redactor) -> Iterator[Piece]:
        """What was held: nothing more comes of that stream."""
        held, self._held = self._held, None
        if held is not None:
            yield replace(held, text=redact(held.text))


def _stream(piece: Piece) -> tuple[type, int | None]:
    return type(piece), piece.action_id if isinstance(piece, ToolOutput) else None
