"""xAI, through its Responses API.

Sources: docs.x.ai/docs/guides/reasoning; pydantic-ai's profile of Grok.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    protocol="responses",
    title="xAI Grok",
    base_url="https://api.x.ai/v1",
    key_env="XAI_API_KEY",
    keys_page="https://console.x.ai",
    default_model="grok-4.6",
    price_list="x-ai",
    own_models="grok-",
    traits=Traits(efforts=levels("low medium high", "reasoning.effort")),
    models={
        r"grok-(code|build|[23]|4(?!\.[3-9]))": {"efforts": {}},
        r"grok-3-mini": {"efforts": levels("low high", "reasoning.effort")},
        r"grok-4\.3": {"efforts": levels("none low medium high", "reasoning.effort")},
    },
    rank=25,
)
