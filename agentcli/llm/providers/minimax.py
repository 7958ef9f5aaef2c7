"""MiniMax, through its Anthropic-compatible endpoint, which it recommends.

M2 can't be told whether to reason. Sources: charmbracelet/catwalk; pi's file for it.
"""

from agentcli.llm.provider import Provider, Traits

PROVIDER = Provider(
    protocol="anthropic_messages",
    title="MiniMax",
    base_url="https://api.minimax.io/anthropic",
    key_env="MINIMAX_API_KEY",
    keys_page="https://platform.minimax.io/user-center/basic-information/interface-key",
    default_model="MiniMax-M3",
    price_list="minimax",
    own_models="MiniMax-",
    traits=Traits(
        efforts={
            "none": {"thinking": {"type": "disabled"}},
            "medium": {"thinking": {"type": "adaptive"}},
        },
        forced_tools=False,
    ),
    models={r"MiniMax-M[12]|minimax-01": {"efforts": {}}},
    rank=23,
)
