"""DeepSeek.

Every message of the model that has calls must come back with its `reasoning_content`, even an empty
one. Only its vision models read images. Sources: api-docs.deepseek.com/guides/thinking_mode and
/guides/vision; pydantic-ai's and pi's files for it.
"""

from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="DeepSeek",
    base_url="https://api.deepseek.com",
    key_env="DEEPSEEK_API_KEY",
    keys_page="https://platform.deepseek.com/api_keys",
    default_model="deepseek-v4-pro",
    price_list="deepseek",
    traits=Traits(
        efforts=levels("low medium=high high max", thinking={"type": "disabled"}),
        forced_tools=False,
        filled={"reasoning_content": ""},
        images="none",
    ),
    models={"vision": {"images": "anywhere"}},
    rank=20,
)
