"""OpenRouter, which forwards to many other providers."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    title="OpenRouter",
    base_url="https://openrouter.ai/api/v1",
    key_env="OPENROUTER_API_KEY",
    keys_page="https://openrouter.ai/settings/keys",
    default_model="~anthropic/claude-sonnet-latest",
    price_list="openrouter",
    rank=3,
)
