"""Fireworks AI.

Source: docs.fireworks.ai/guides/reasoning.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="Fireworks AI",
    base_url="https://api.fireworks.ai/inference/v1",
    key_env="FIREWORKS_API_KEY",
    keys_page="https://app.fireworks.ai/settings/users/api-keys",
    default_model="accounts/fireworks/models/glm-5p3",
    price_list="fireworks",
    own_models="accounts/",
    traits=Traits(efforts=levels("none low medium high")),
    models={r"gpt-oss": {"efforts": levels("low medium high")}},
    rank=30,
)
