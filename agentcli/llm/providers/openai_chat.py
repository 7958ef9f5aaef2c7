"""openai-chat: OpenAI, through its Chat Completions API.

Source: developers.openai.com/api/docs, the deployment checklist.
"""

from agentcli.llm.provider import GPT_CHAT, Provider, Traits

PROVIDER = Provider(
    base_url="https://api.openai.com/v1",
    key_env="OPENAI_API_KEY",
    price_list="openai",
    traits=Traits(output_limit="max_completion_tokens", cache_key=True),
    models=GPT_CHAT,
    rank=5,
)
