"""Masks secrets in text that arrives in pieces: a secret may be spread over several of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolOutput

_PASSED_ON = 8
"""Characters already passed on that the redactor sees again, to recognise a secret after them."""

Redact = Callable[[Any], Any]
"""Masks secrets in JSON data at any depth."""

Piece = TextDelta | ReasoningDelta | ToolOutput


class Redactor(Protocol):
    def __call__(self, data: Any) -> Any:
        """Return JSON data with its secrets masked at any depth; the same object when there are
        none."""

    def safe_prefix_length(self, text: str) -> int:
        """Return how many characters of `text`, the newest part of a stream, can be masked and
        passed on. The caller puts the rest before the next part, because a secret may begin
        there."""

    def note(self, before: str, after: str) -> str:
        """Return a sentence for the reader of `after` that says how many secrets of `before` are
        masked in it; empty if none."""


class NoSecrets:
    """Masks nothing."""

    def __call__(self, data: Any) -> Any:
        return data

    def safe_prefix_length(self, text: str) -> int:
        return len(text)

    def note(self, before: str, after: str) -> str:
        return ""


class StreamRedactor:
    """Holds back the end of a stream while a secret may have begun in it."""

    def __init__(self) -> None:
        self._stream: tuple[type, int | None] | None = None
        self._held: Piece | None = None
        self._passed = ""

    def add(self, piece: Piece, redact: Redactor) -> Iterator[Piece]:
        """Yield what can be passed on now of the held text and `piece`. An empty piece, which only
        says that time passes, always can."""
        tells_time = not piece.text
        if _stream(piece) != self._stream:
            yield from self.release(redact)
            self._stream = _stream(piece)
        if self._held is not None:
            piece = replace(piece, text=self._held.text + piece.text)
        end = max(redact.safe_prefix_length(self._passed + piece.text) - len(self._passed), 0)
        self._held = replace(piece, text=piece.text[end:]) if end < len(piece.text) else None
        self._passed = (self._passed + piece.text[:end])[-_PASSED_ON:]
        if end or tells_time:
            yield replace(piece, text=redact(piece.text[:end]))

    def release(self, redact: Redactor) -> Iterator[Piece]:
        """Yield what was held, because its stream has ended."""
        held, self._held = self._held, None
        self._stream, self._passed = None, ""
        if held is not None:
            yield replace(held, text=redact(held.text))


def _stream(piece: Piece) -> tuple[type, int | None]:
    return type(piece), piece.action_id if isinstance(piece, ToolOutput) else None
