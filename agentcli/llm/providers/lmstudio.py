"""LM Studio on this machine."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(
    protocol="chat_completions",
    title="LM Studio",
    base_url="http://127.0.0.1:1234/v1",
    start="lms server start",
    rank=7,
)
