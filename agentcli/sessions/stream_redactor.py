"""Text that comes in pieces is masked as a whole: a secret may be broken over several of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Protocol

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolOutput

_PASSED_ON = 8
"""Characters that the newest part of a stream begins with, for the redactor to know a secret by."""

Piece = TextDelta | ReasoningDelta | ToolOutput


class Redactor(Protocol):
    def __call__(self, data: Any) -> Any:
        """JSON data with the secrets in it masked at any depth; the same object when there are
        none."""

    def settled(self, text: str) -> int:
        """How many characters of `text`, the newest part of a stream, can be masked and passed on.
        The caller puts the rest before the next part: a secret may begin there."""

    def note(self, before: str, after: str) -> str:
        """A sentence for the reader of `after` that says how many secrets of `before` are masked in
        it; empty if none."""


class NoSecrets:
    """Masks nothing."""

    def __call__(self, data: Any) -> Any:
        return data

    def settled(self, text: str) -> int:
        return len(text)

    def note(self, before: str, after: str) -> str:
        return ""


class StreamRedactor:
    """Holds the end of a stream back while a secret may have begun in it."""

    def __init__(self) -> None:
        self._stream: tuple[type, int | None] | None = None
        self._held: Piece | None = None
        self._passed = ""

    def add(self, piece: Piece, redact: Redactor) -> Iterator[Piece]:
        """What can be passed on by now, of `piece` and what was held. An empty piece, which tells
        that time passes, always can."""
        tells_time = not piece.text
        if _stream(piece) != self._stream:
            yield from self.release(redact)
            self._stream = _stream(piece)
        if self._held is not None:
            piece = replace(piece, text=self._held.text + piece.text)
        end = max(redact.settled(self._passed + piece.text) - len(self._passed), 0)
        self._held = replace(piece, text=piece.text[end:]) if end < len(piece.text) else None
        self._passed = (self._passed + piece.text[:end])[-_PASSED_ON:]
        if end or tells_time:
            yield replace(piece, text=redact(piece.text[:end]))

    def release(self, redact: Redactor) -> Iterator[Piece]:
        """What was held: nothing more comes of that stream."""
        held, self._held = self._held, None
        self._stream, self._passed = None, ""
        if held is not None:
            yield replace(held, text=redact(held.text))


def _stream(piece: Piece) -> tuple[type, int | None]:
    return type(piece), piece.action_id if isinstance(piece, ToolOutput) else None
