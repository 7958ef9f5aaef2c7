"""OpenRouter, which passes on to many others."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    base_url="https://openrouter.ai/api/v1",
    key_env="OPENROUTER_API_KEY",
    default_model="~anthropic/claude-sonnet-latest",
    price_list="openrouter",
    rank=3,
)
