"""A file of recorded replies."""

from agentcli.llm.provider_kind import ProviderKind

PROVIDER = ProviderKind(protocol="scripted", rank=10)
