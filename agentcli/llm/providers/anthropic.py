"""Anthropic.

What its models take is in `llm/provider.py`. The version of the API that the SDK asks for refuses
sampling. Source: platform.claude.com/docs/en/api/versioning.
"""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="anthropic_messages",
    title="Anthropic",
    base_url="https://api.anthropic.com",
    key_env="ANTHROPIC_API_KEY",
    keys_page="https://console.anthropic.com/settings/keys",
    default_model="claude-sonnet-5-5",
    price_list="anthropic",
    models={"": {"unwanted": ("temperature", "top_p", "top_k")}},
    rank=1,
)
