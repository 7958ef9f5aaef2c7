"""llama.cpp on this machine."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    title="llama.cpp",
    base_url="http://127.0.0.1:8080/v1",
    start="llama-server --jinja -m MODEL.gguf",
    rank=9,
)
