"""openai-chat: OpenAI, through its Chat Completions API."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    price_list="openai",
    rank=5,
)
