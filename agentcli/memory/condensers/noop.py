"""noop: keeps everything in sight until it no longer fits."""

from __future__ import annotations

from agentcli.memory.condenser import CondenserKind
from agentcli.memory.condensers.pipeline import Pipeline

CONDENSER = CondenserKind(lambda options: Pipeline([]))
