"""What a session's policy is built from."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.files.access_scope import Coverage
from agentcli.sandbox.selection import Sandbox
from agentcli.settings import Settings
from agentcli.tools.base import ToolContext
from agentcli.tools.collection import ToolCollection


@dataclass(frozen=True)
class PolicyParts:
    settings: Settings
    environ: Mapping[str, str]
    workspace: Path
    sandbox: Sandbox
    tools: ToolCollection
    context: ToolContext
    ask_judge: Callable[[str], str]
    coverage: Callable[[], Coverage | None] = lambda: None
    """Returns what checkpoints hold; None: there are none."""
    grants: Callable[[], Sequence[str]] = tuple
    """Returns what the user has allowed so far."""
    mask: Callable[[str], str] = str
    """Masks the secrets in a text."""

    @property
    def repository(self) -> Path:
        """The file that records the repository's state at the start of the session."""
        return self.context.outputs.path.with_name("repository.json")
