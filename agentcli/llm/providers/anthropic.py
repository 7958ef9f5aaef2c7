"""Anthropic."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="anthropic_messages",
    title="Anthropic",
    base_url="https://api.anthropic.com",
    key_env="ANTHROPIC_API_KEY",
    keys_page="https://console.anthropic.com/settings/keys",
    default_model="claude-sonnet-5-5",
    price_list="anthropic",
    rank=1,
)
