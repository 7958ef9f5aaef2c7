"""vLLM on this machine."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    title="vLLM",
    base_url="http://127.0.0.1:8000/v1",
    start="vllm serve MODEL",
    rank=8,
)
