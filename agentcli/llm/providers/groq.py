"""Groq.

Sources: console.groq.com/docs/reasoning; pydantic-ai's profile of it.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="Groq",
    base_url="https://api.groq.com/openai/v1",
    key_env="GROQ_API_KEY",
    keys_page="https://console.groq.com/keys",
    default_model="openai/gpt-oss-120b",
    price_list="groq",
    traits=Traits(efforts={}),
    models={
        r"gpt-oss": {"efforts": levels("low medium high")},
        r"qwen3": {
            "always": {"reasoning_format": "parsed"},
            "efforts": levels("none medium=default"),
        },
    },
    rank=27,
)
