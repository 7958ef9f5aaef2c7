"""The agents that a session may delegate to, under its settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from agentcli.app.configuration.places import user_file
from agentcli.errors import ToolError
from agentcli.knowledge.definitions import AgentDefinition, find_agents
from agentcli.settings import Settings
from agentcli.tools.base import Effect, Tool
from agentcli.tools.registry import TOOLS

AGENT_FOLDER_NAME = "agents"
DELEGATE = "delegate"
_LONGEST_DESCRIPTION = 80
"""Short, because it is paid for with every request."""
NEVER = frozenset({"ask", "memory"})
"""Tools that no child has: it asks nobody and keeps no notes."""


@dataclass(frozen=True)
class KnownAgents:
    """The agents by name. `effects` are those of all tools, by name."""

    known: Mapping[str, AgentDefinition]
    effects: Mapping[str, Effect]
    may_delegate: bool
    notices: tuple[str, ...] = ()

    def get(self, name: str) -> AgentDefinition:
        """Return the agent of this name. Raises ToolError if there is none."""
        if name not in self.known:
            raise ToolError(f"There is no agent {name!r}. The agents are: {', '.join(self.known)}.")
        return self.known[name]

    def facts(self, agent: AgentDefinition) -> list[str]:
        """Describe the agent to people: what it is for, what it may do and which model answers."""
        may = "reads only" if self.reads_only(agent) else "all tools" if agent.tools is None else ""
        tools = may or f"tools: {', '.join(agent.tools or ())}"
        return list(dict.fromkeys(filter(None, (agent.description, tools, agent.model))))

    def changes_files(self, name: str) -> bool:
        return name in self.known and not self.reads_only(self.known[name])

    def reads_only(self, agent: AgentDefinition) -> bool:
        """Whether all its tools only read local files."""
        tools = agent.tools
        return tools is not None and all(
            name != DELEGATE and self.effects.get(name) is Effect.READ for name in tools
        )

    def offered(
        self, tools: Iterable[Tool[Any]], allows: Callable[[str], bool]
    ) -> Iterator[Tool[Any]]:
        """Yield those `tools` that `allows` by name; delegate also lists the agents."""
        for tool in tools:
            if tool.name == DELEGATE and self.may_delegate and allows(DELEGATE):
                yield replace(tool, about=self.listing)
            elif tool.name != DELEGATE and allows(tool.name):
                yield tool

    @property
    def listing(self) -> str:
        """The agents and what they are for, for the model."""
        described = (
            f"{agent.name} ({agent.description[:_LONGEST_DESCRIPTION]})"
            if agent.description
            else agent.name
            for agent in self.known.values()
        )
        return f"{', '.join(described)}."


def agents_of(
    settings: Settings,
    environ: Mapping[str, str],
    project_files: Mapping[str, bytes],
    level: int,
) -> KnownAgents:
    """Return the agents that a session with `level` sessions above it may delegate to."""
    effects = {name: tool.effect for name, tool in TOOLS.all().items()}
    may = settings.tools.enable_delegate and level < settings.delegation.max_level
    if not may:
        return KnownAgents({}, effects, may_delegate=False)
    folder = user_file(environ).with_name(AGENT_FOLDER_NAME)
    found = find_agents(folder, project_files, effects)
    notices = found.notices if level == 0 else ()
    return KnownAgents(found.known, effects, may_delegate=True, notices=notices)
