"""llama.cpp on this machine.

Whether a model thinks, and how much, is up to its chat template. One that does not know tools gets
none: the server drops them silently. Its port was 8080 and becomes 9931. Sources:
tools/server/README.md and common/jinja/caps.h of ggml-org/llama.cpp.
"""

from urllib.parse import quote

from agentcli.llm.probing import size
from agentcli.llm.provider import Facts, Get, Provider, Traits, levels

_NO_TOOLS = (
    "the chat template of this model does not know tools, so they are described in the text "
    '(tool_format = "text"); expect less of it'
)


def ask(get: Get, model: str) -> Facts | None:
    answer = get("/props")
    if isinstance(answer, dict) and answer.get("role") == "router":
        answer = get(f"/props?model={quote(model)}&autoload=false")
    if not isinstance(answer, dict):
        return None
    usual, caps = answer.get("default_generation_settings"), answer.get("chat_template_caps")
    window = size(usual if isinstance(usual, dict) else answer, "n_ctx")
    changes: dict[str, str] = {}
    if isinstance(caps, dict) and caps.get("supports_tools") is False:
        changes["tools"] = "text"
    modalities = answer.get("modalities")
    if isinstance(modalities, dict) and modalities.get("vision") is False:
        changes["images"] = "none"
    return Facts(window, changes, _NO_TOOLS if "tools" in changes else "")


PROVIDER = Provider(
    title="llama.cpp",
    base_url="http://127.0.0.1:8080/v1",
    also_at=("http://127.0.0.1:9931/v1",),
    ask=ask,
    start="llama-server --jinja -m MODEL.gguf",
    traits=Traits(
        efforts=levels(
            "low medium high",
            "chat_template_kwargs.reasoning_effort",
            chat_template_kwargs={"enable_thinking": False},
        ),
        schema="llamacpp",
    ),
    rank=10,
)
