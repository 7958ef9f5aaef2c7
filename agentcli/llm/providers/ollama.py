"""Ollama on this machine.

It ignores `tool_choice`, and refuses null as what a model said. The window is known once a model
is in memory. Sources: openai/openai.go, envconfig/config.go and docs/api.md of ollama/ollama;
pydantic/pydantic-ai#5206.
"""

from urllib.parse import urlsplit

from agentcli.llm.probing import entries, entry_of, size
from agentcli.llm.provider import Facts, Get, Provider, Traits, levels

_PORTS = {"http": 80, "https": 443}


def ask(get: Get, model: str) -> Facts | None:
    answer = get("/api/ps")
    running = entries(answer, "models")
    if not isinstance(answer, dict) or "models" not in answer:
        return None
    entry = entry_of(model, running, "name", "model")
    loaded = [str(each.get("name")) for each in running]
    return Facts(size(entry, "context_length"), loaded=loaded, may_change=not entry)


def address(host: str) -> str:
    """Return the address that OLLAMA_HOST means: it may have no scheme or port, and be that of all
    interfaces. Raises ValueError."""
    parts = urlsplit(host if "://" in host else f"http://{host}")
    name = parts.hostname or "127.0.0.1"
    name = "127.0.0.1" if name in ("0.0.0.0", "::") else name
    port = parts.port or (_PORTS.get(parts.scheme) if "://" in host else 11434)
    shown = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{shown}:{port}{parts.path.rstrip('/')}/v1"


PROVIDER = Provider(
    title="Ollama",
    base_url="http://127.0.0.1:11434/v1",
    address_env={"OLLAMA_HOST": address},
    ask=ask,
    start="ollama serve",
    traits=Traits(
        efforts=levels("none low medium high max"), forced_tools=False, filled={"content": ""}
    ),
    rank=6,
)
