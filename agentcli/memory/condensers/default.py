"""default: repeated and old results are masked first; what is still too long is summed up."""

from __future__ import annotations

from agentcli.memory.condenser import CondenserKind
from agentcli.memory.condensers.llm_summary import rolling
from agentcli.memory.condensers.old_results import OldResults
from agentcli.memory.condensers.pipeline import Pipeline

CONDENSER = CondenserKind(
    lambda options: Pipeline([OldResults(), rolling(options, max_size=0)]), "max_size"
)
