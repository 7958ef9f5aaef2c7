"""browser_output_masking: older pages give way to a note, with their screenshots."""

from __future__ import annotations

from agentcli.memory.condenser import CondenserKind
from agentcli.memory.condensers.observation_masking import Masking

_EVENTS_BETWEEN = 20
"""Ten steps or so: each time, the provider's cache of the prompt is lost from there on."""

CONDENSER = CondenserKind(
    lambda options: Masking(
        options.settings.browser_attention_window, _EVENTS_BETWEEN, browser_only=True
    )
)
