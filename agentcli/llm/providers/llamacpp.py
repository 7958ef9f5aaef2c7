"""llama.cpp on this machine."""

from agentcli.llm.provider_kind import ProviderKind

PROVIDER = ProviderKind(protocol="chat_completions", base_url="http://127.0.0.1:8080/v1", rank=9)
