"""What both ways to a server have in common: their limits, and how a connection is."""

from __future__ import annotations

from dataclasses import dataclass, field

import anyio
from mcp.client._transport import TransportStreams

MOST_BYTES = 16_000_000
"""Of one message: a few images."""
MOST_UNASKED = 20_000_000
"""Of what a server sends between two answers: progress, notices, and what is no message."""

Streams = TransportStreams


@dataclass
class Health:
    """Of one connection. `fault`: why it is of no use any more, in words that begin with "it";
    `said`: the last that its program wrote to stderr."""

    fault: str = ""
    said: bytes = b""
    ended: anyio.Event = field(default_factory=anyio.Event)

    def lost(self, why: str) -> None:
        """It can't be spoken to any more; the first reason counts."""
        self.fault = self.fault or why
        self.ended.set()
