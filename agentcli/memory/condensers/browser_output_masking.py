"""browser_output_masking: replaces older pages and their screenshots with a note."""

from __future__ import annotations

from agentcli.memory.condenser import CondenserKind
from agentcli.memory.condensers.observation_masking import Masking

_EVENTS_BETWEEN = 20
"""About ten steps: each time, the provider's cache of the prompt is lost from that point on."""

CONDENSER = CondenserKind(
    lambda options: Masking(
        options.settings.browser_attention_window, _EVENTS_BETWEEN, browser_only=True
    )
)
