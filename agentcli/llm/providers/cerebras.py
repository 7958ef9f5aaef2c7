"""Cerebras.

It refuses members that it does not know. Sources: inference-docs.cerebras.ai/resources/openai;
pydantic-ai's file for it.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="Cerebras",
    base_url="https://api.cerebras.ai/v1",
    key_env="CEREBRAS_API_KEY",
    keys_page="https://cloud.cerebras.ai",
    default_model="gpt-oss-120b",
    price_list="cerebras",
    traits=Traits(efforts={}, unwanted=("parallel_tool_calls", "service_tier")),
    models={
        r"gpt-oss": {"efforts": levels("low medium high")},
        r"glm": {
            "efforts": {"none": {"disable_reasoning": True}, "medium": {"disable_reasoning": False}}
        },
    },
    rank=28,
)
