"""LM Studio on this machine.

Older ones refuse null as what a model said. Sources: lmstudio.ai/docs, the REST API v0;
lmstudio-ai/lmstudio-bug-tracker#261.
"""

from agentcli.llm.probing import entries, entry_of, size
from agentcli.llm.provider import Facts, Get, Provider, Traits


def ask(get: Get, model: str) -> Facts | None:
    found = entries(get("/api/v0/models"))
    if not any("state" in each for each in found):
        return None
    entry = entry_of(model, found, "id")
    is_loaded = entry.get("state") == "loaded"
    return Facts(
        size(entry, "loaded_context_length") if is_loaded else 0,
        {"images": "none"} if entry.get("type") == "llm" else {},
        loaded=[
            str(each.get("id"))
            for each in found
            if each.get("state") == "loaded" and each.get("type") != "embeddings"
        ],
        may_change=not is_loaded,
    )


PROVIDER = Provider(
    title="LM Studio",
    base_url="http://127.0.0.1:1234/v1",
    ask=ask,
    start="lms server start",
    traits=Traits(filled={"content": ""}),
    rank=7,
)
