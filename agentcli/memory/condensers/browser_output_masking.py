"""browser_output_masking: older pages give way to a note, with their screenshots."""

from __future__ import annotations

from agentcli.memory.condensers.base import Condenser, Options
from agentcli.memory.condensers.observation_masking import Masking

_STRIDE = 20
"""Events, ten steps or so: each time, the provider's cache of the prompt is lost from there on."""


def build(options: Options) -> Condenser:
    return Masking(options.browser_attention_window, stride=_STRIDE, browser_only=True)
