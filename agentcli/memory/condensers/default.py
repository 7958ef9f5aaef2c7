"""default: masks repeated and old results first, then summarises if that is still too long."""

from __future__ import annotations

from agentcli.memory.condenser import CondenserKind
from agentcli.memory.condensers.llm_summary import rolling
from agentcli.memory.condensers.old_results import OldResults
from agentcli.memory.condensers.pipeline import Pipeline

CONDENSER = CondenserKind(
    lambda options: Pipeline([OldResults(), rolling(options, max_size=0)]), "max_size"
)
