"""OpenAI's models on Microsoft Azure, through the v1 endpoint of a resource.

A model is named by its deployment. Source: learn.microsoft.com, the v1 API of
Azure OpenAI.
"""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="responses",
    title="Azure OpenAI",
    key_env="AZURE_OPENAI_API_KEY",
    keys_page="https://ai.azure.com",
    price_list="azure",
    rank=32,
)
