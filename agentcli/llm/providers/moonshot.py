"""Moonshot's Kimi.

K3 always reasons, K2.7 too; K2.6 and older can be told not to. Sampling is fixed. Reasoning that
comes back empty counts as missing; a blank does not (earendil-works/pi, pull request 4178). Other
sources: MoonshotAI/kimi-cli (kosong/chat_provider/kimi.py); pydantic-ai's and pi's files for it.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="Moonshot Kimi",
    base_url="https://api.moonshot.ai/v1",
    key_env="MOONSHOT_API_KEY",
    keys_page="https://platform.moonshot.ai/console/api-keys",
    default_model="kimi-k3",
    price_list="moonshotai",
    own_models="kimi-",
    traits=Traits(
        efforts=levels("low medium=high high max"),
        unwanted=("temperature", "top_p"),
        forced_tools=False,
        schema="moonshot",
        filled={"reasoning_content": " "},
    ),
    models={
        r"kimi-k2": {"efforts": {}},
        r"kimi-k2\.[56]": {
            "efforts": {
                "none": {"thinking": {"type": "disabled"}},
                "medium": {"thinking": {"type": "enabled"}},
            }
        },
        r"moonshot-v1": {"efforts": {}, "unwanted": (), "filled": {}},
    },
    rank=21,
)
