"""OpenRouter, which forwards to many other providers.

Efforts are mapped to what the model takes. Sources: openrouter.ai/docs, reasoning tokens and the
guides to Claude 4.7 and 5.5; pydantic-ai's file for it.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    key_env="OPENROUTER_API_KEY",
    keys_page="https://openrouter.ai/settings/keys",
    default_model="~anthropic/claude-sonnet-latest",
    price_list="openrouter",
    traits=Traits(efforts=levels("none minimal low medium high xhigh max", "reasoning.effort")),
    models={r"claude": {"forced_tools": False}, r"google/gemini": {"schema": "gemini"}},
    rank=3,
)
