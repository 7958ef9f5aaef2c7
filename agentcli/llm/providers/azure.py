"""OpenAI's models on Microsoft Azure, through the v1 endpoint of a resource.

A model is named by its deployment; older ways to address it need `?api-version=…` at the end of the
base URL. Source: learn.microsoft.com, the v1 API of Azure OpenAI.
"""

from agentcli.llm.provider import Provider


def _of_resource(endpoint: str) -> str:
    return f"{endpoint.rstrip('/').removesuffix('/openai/v1')}/openai/v1"


PROVIDER = Provider(
    protocol="responses",
    address_env={"AZURE_OPENAI_ENDPOINT": _of_resource},
    key_env="AZURE_OPENAI_API_KEY",
    keys_page="https://ai.azure.com",
    price_list="azure",
    rank=32,
)
