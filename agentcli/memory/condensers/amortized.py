"""amortized: above max_events, drops the older half."""

from __future__ import annotations

from agentcli.memory.condenser import CondenserKind
from agentcli.memory.condensers.window import DropOldest

CONDENSER = CondenserKind(
    lambda options: DropOldest(options.settings.keep_first, options.settings.max_events, share=0.5),
    "max_events",
)
