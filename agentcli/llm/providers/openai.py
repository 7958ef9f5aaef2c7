"""OpenAI, through its Responses API; what its models take is in `llm/provider.py`."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="responses",
    title="OpenAI",
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    keys_page="https://platform.openai.com/api-keys",
    default_model="gpt-5.5",
    price_list="openai",
    rank=2,
)
