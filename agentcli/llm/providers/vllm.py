"""vLLM on this machine.

Whether a model thinks is up to its chat template. Source: docs.vllm.ai, reasoning outputs.
"""

from agentcli.llm.probing import listed
from agentcli.llm.provider import Provider, Traits, levels

PROVIDER = Provider(
    title="vLLM",
    base_url="http://127.0.0.1:8000/v1",
    ask=listed,
    start="vllm serve MODEL",
    traits=Traits(
        efforts=levels("low medium high", chat_template_kwargs={"enable_thinking": False})
    ),
    rank=8,
)
