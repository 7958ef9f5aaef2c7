"""Anthropic."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="anthropic_messages",
    base_url="https://api.anthropic.com",
    key_env="ANTHROPIC_API_KEY",
    default_model="claude-sonnet-5-5",
    price_list="anthropic",
    rank=1,
)
