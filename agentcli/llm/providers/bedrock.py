"""Claude on Amazon Bedrock.

Models have the ids of inference profiles, such as `us.anthropic.claude-sonnet-5-5-v1:0`; what they
take is in `llm/provider.py`. Source: platform.claude.com/docs, Claude on Amazon Bedrock.
"""

from agentcli.llm.provider import Provider


def _of_region(region: str) -> str:
    return f"https://bedrock-runtime.{region}.amazonaws.com"


PROVIDER = Provider(
    protocol="bedrock",
    base_url=_of_region("us-east-1"),
    address_env={
        "ANTHROPIC_BEDROCK_BASE_URL": str,
        "AWS_REGION": _of_region,
        "AWS_DEFAULT_REGION": _of_region,
    },
    key_env="AWS_BEARER_TOKEN_BEDROCK",
    signs_in=True,
    price_list="aws",
    rank=34,
)
