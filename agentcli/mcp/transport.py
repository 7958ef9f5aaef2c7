"""What both transports share: their limits, and the health of a connection."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
from mcp.client._transport import TransportStreams

MOST_BYTES = 16_000_000
"""Largest message, in bytes; it has room for a few images."""
MOST_UNASKED = 20_000_000
"""Most bytes that a server may send between two answers: progress, notices and non-messages."""

Streams = TransportStreams


@dataclass
class Health:
    """The health of one connection. `fault` says why it can't be used any more, in words that begin
    with "it"; `said` is the last that its program wrote to stderr."""

    fault: str = ""
    said: bytes = b""
    ended: anyio.Event = field(default_factory=anyio.Event)

    def lost(self, why: str) -> None:
        """Note that the connection is lost; only the first reason is kept."""
        self.fault = self.fault or why
        self.ended.set()
