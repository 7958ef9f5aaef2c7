"""A file of recorded replies."""

from agentcli.llm.provider import Provider

PROVIDER = Provider(protocol="scripted", rank=99)
