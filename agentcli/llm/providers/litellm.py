"""A LiteLLM proxy: see docs/litellm.md."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    title="LiteLLM proxy",
    base_url="http://127.0.0.1:4000/v1",
    key_env="LITELLM_API_KEY",
    keys_page="https://docs.litellm.ai/docs/proxy/virtual_keys",
    rank=33,
)
