"""Hugging Face's router, which forwards to many other providers."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    title="Hugging Face",
    base_url="https://router.huggingface.co/v1",
    key_env="HF_TOKEN",
    keys_page="https://huggingface.co/settings/tokens",
    default_model="zai-org/GLM-5.3",
    rank=31,
)
