"""One rule of the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decision = Literal["allow", "ask", "deny"]
Pattern = Literal["", "command", "path", "url"]
"""What the brackets of `tool(pattern)` hold: nothing, the words of a command, globs for paths, or a
site as domain:name. It is compared with the argument of the tool call that has this name."""


@dataclass(frozen=True)
class Rule:
    """A rule that the user wrote. An empty `pattern` covers everything the tool does. `origin`
    says where it was set. `here`: it was made in this workspace, not in global settings."""

    decision: Decision
    tool: str
    pattern: str
    origin: str
    here: bool = False

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool
