"""What a session's policy is built from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from agentcli.app.containment import Containment
from agentcli.sessions.session import Session
from agentcli.settings import AgentSettings
from agentcli.tools.base import ToolContext
from agentcli.tools.registry import ToolRegistry
from agentcli.workspace.scope import Coverage


@dataclass(frozen=True)
class PolicyParts:
    """`agent` has the approval mode; `judge` asks a model how risky an action is."""

    session: Session
    containment: Containment
    tools: ToolRegistry
    context: ToolContext
    agent: AgentSettings
    judge: Callable[[str], str]
    coverage: Callable[[], Coverage | None] = lambda: None
    """Returns what checkpoints hold; None: there are none."""

    @property
    def repository(self) -> Path:
        """The file that records the repository's state at the start of the session."""
        return self.session.outputs.with_name("repository.json")
