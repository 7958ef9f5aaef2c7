"""recent: keeps the first and the newest events; drops those in between, a quarter at a time."""

from __future__ import annotations

from agentcli.memory.condenser import CondenserKind
from agentcli.memory.condensers.window import DropOldest

CONDENSER = CondenserKind(
    lambda options: DropOldest(options.settings.keep_first, options.settings.max_events),
    "max_events",
)
