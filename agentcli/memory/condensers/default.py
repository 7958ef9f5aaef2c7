"""default: repeated and old results are masked first; what is still too long is summed up."""

from __future__ import annotations

from agentcli.memory.condensers import old_results
from agentcli.memory.condensers.base import Condenser, Options, require_room
from agentcli.memory.condensers.llm_summary import rolling
from agentcli.memory.condensers.pipeline import Pipeline


def build(options: Options) -> Condenser:
    """Raises ConfigError when keep_first is not less than half of max_size."""
    require_room(options.keep_first, options.max_size, "max_size")
    return Pipeline([old_results.build(options), rolling(options, max_size=0)])
