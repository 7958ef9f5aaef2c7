"""llama.cpp on this machine.

Whether a model thinks, and how much, is up to its chat template. Source: tools/server/README.md of
ggml-org/llama.cpp.
"""

from agentcli.llm.provider import Provider
from agentcli.llm.traits import Traits, levels

PROVIDER = Provider(
    protocol="chat_completions",
    title="llama.cpp",
    base_url="http://127.0.0.1:8080/v1",
    start="llama-server --jinja -m MODEL.gguf",
    traits=Traits(
        efforts=levels(
            "low medium high",
            "chat_template_kwargs.reasoning_effort",
            chat_template_kwargs={"enable_thinking": False},
        )
    ),
    rank=10,
)
