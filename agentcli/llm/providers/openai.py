"""OpenAI, through its Responses API."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="responses",
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    default_model="gpt-5.5",
    price_list="openai",
    rank=2,
)
