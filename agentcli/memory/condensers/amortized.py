"""amortized: with more than max_events, the older half goes."""

from __future__ import annotations

from agentcli.memory.condensers.base import Condenser, Options, require_room
from agentcli.memory.condensers.recent import Recent


def build(options: Options) -> Condenser:
    """Raises ConfigError when keep_first is not less than half of max_events."""
    require_room(options.keep_first, options.max_events, "max_events")
    return Recent(options.keep_first, options.max_events, share=0.5)
