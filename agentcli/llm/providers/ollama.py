"""Ollama on this machine."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    title="Ollama",
    base_url="http://127.0.0.1:11434/v1",
    start="ollama serve",
    rank=6,
)
