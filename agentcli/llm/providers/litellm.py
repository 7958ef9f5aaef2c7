"""A LiteLLM proxy: see docs/litellm.md.

Source: docs.litellm.ai/docs/proxy/model_management, /model/info.
"""

from agentcli.llm.probing import entries, entry_of, size
from agentcli.llm.provider import Facts, Get, Provider


def ask(get: Get, model: str) -> Facts | None:
    info = entry_of(model, entries(get("model/info")), "model_name").get("model_info")
    if not isinstance(info, dict):
        return None
    most = size(info, "max_output_tokens")
    return Facts(size(info, "max_input_tokens"), {"most_output_tokens": most} if most else {})


PROVIDER = Provider(
    title="LiteLLM proxy",
    base_url="http://127.0.0.1:4000/v1",
    key_env="LITELLM_API_KEY",
    address_env={"LITELLM_PROXY_API_BASE": str},
    ask=ask,
    keys_page="https://docs.litellm.ai/docs/proxy/virtual_keys",
    rank=33,
)
