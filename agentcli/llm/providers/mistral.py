"""Mistral.

Ids of calls have exactly nine letters and digits, and no message of the user may follow a tool's
result. Sources: docs.mistral.ai/capabilities/reasoning; opencode's provider/transform.ts.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="Mistral",
    base_url="https://api.mistral.ai/v1",
    key_env="MISTRAL_API_KEY",
    keys_page="https://console.mistral.ai/api-keys",
    default_model="mistral-medium-latest",
    price_list="mistral",
    traits=Traits(efforts={}, unwanted=("stream_options",), short_ids=True, user_after_tool=False),
    models={
        r"(small|medium)-latest|small-(4|26)|medium-3-[5-9]|large-4": {
            "efforts": levels("none high")
        }
    },
    rank=26,
)
