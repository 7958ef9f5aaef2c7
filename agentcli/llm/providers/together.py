"""Together AI.

Source: docs.together.ai, the pages of its reasoning models.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="Together AI",
    base_url="https://api.together.xyz/v1",
    key_env="TOGETHER_API_KEY",
    keys_page="https://api.together.ai/settings/api-keys",
    default_model="zai-org/GLM-5.3",
    price_list="together",
    own_models="zai-org/",
    traits=Traits(
        efforts={
            "none": {"reasoning": {"enabled": False}},
            "medium": {"reasoning": {"enabled": True}},
        }
    ),
    models={r"gpt-oss": {"efforts": levels("low medium high")}},
    rank=29,
)
