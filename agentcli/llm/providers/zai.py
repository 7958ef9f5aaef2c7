"""Z.ai's GLM.

With `clear_thinking` off, earlier reasoning stays part of the conversation, which the cache needs
too. Sources: docs.z.ai/guides/capabilities/thinking-mode; pydantic-ai's file for it.
"""

from agentcli.llm.provider import Provider, Traits, levels

_ON = {"type": "enabled", "clear_thinking": False}
_OFF = {"type": "disabled"}

PROVIDER = Provider(
    title="Z.ai GLM",
    base_url="https://api.z.ai/api/paas/v4",
    key_env="ZAI_API_KEY",
    keys_page="https://z.ai/manage-apikey/apikey-list",
    default_model="glm-5.3",
    price_list="zai",
    traits=Traits(
        always={"thinking": _ON},
        efforts={"none": {"thinking": _OFF}, "medium": {"thinking": _ON}},
        forced_tools=False,
    ),
    models={
        r"glm-5\.2": {"efforts": levels("minimal low medium high xhigh max", thinking=_OFF)},
        r"glm-5\.[3-9]": {"efforts": levels("low medium=high high max")},
        r"glm-4(-|\.[56])": {"always": {}},
    },
    rank=22,
)
