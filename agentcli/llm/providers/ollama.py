"""Ollama on this machine.

It ignores `tool_choice`. Source: openai/openai.go of ollama/ollama.
"""

from agentcli.llm.provider import Provider
from agentcli.llm.traits import Traits, levels

PROVIDER = Provider(
    protocol="chat_completions",
    title="Ollama",
    base_url="http://127.0.0.1:11434/v1",
    start="ollama serve",
    traits=Traits(efforts=levels("none low medium high max"), forced_tools=False),
    rank=6,
)
