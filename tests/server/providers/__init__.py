"""The providers' own rules, by the names that their files have in the program.

A wire format has one set of rules (`chat_completions.py` and so on); what a provider demands beyond
it, and how it answers, stands here as data, each rule with its source.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..checks import nullable, string
from . import anthropic, gemini, hosts, local, openai, openrouter, reasoners
from .provider import Asked, Provider, Refusal, Rule

__all__ = ["COMPATIBLE", "PROVIDERS", "Asked", "Provider", "Refusal", "Rule"]

COMPATIBLE = Provider(takes_in_replies={"reasoning_content": nullable(string)})
"""Where no provider is named: a server that shows reasoning, and takes it back."""

PROVIDERS: Mapping[str, Provider] = {
    **anthropic.PROVIDERS,
    **openai.PROVIDERS,
    **gemini.PROVIDERS,
    **openrouter.PROVIDERS,
    **reasoners.PROVIDERS,
    **hosts.PROVIDERS,
    **local.PROVIDERS,
}
