"""Claude on Google's Vertex AI.

What its models take is in `llm/provider.py`. Source: platform.claude.com/docs, Claude on Vertex AI.
"""

from agentcli.llm.provider import Provider

_HOSTS = {
    "global": "aiplatform.googleapis.com",
    "us": "aiplatform.us.rep.googleapis.com",
    "eu": "aiplatform.eu.rep.googleapis.com",
}


def _of_region(region: str) -> str:
    return f"https://{_HOSTS.get(region, f'{region}-aiplatform.googleapis.com')}/v1"


PROVIDER = Provider(
    protocol="vertex",
    base_url=_of_region("global"),
    address_env={"ANTHROPIC_VERTEX_BASE_URL": str, "CLOUD_ML_REGION": _of_region},
    signs_in=True,
    price_list="google",
    rank=35,
)
