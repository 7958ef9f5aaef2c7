"""One rule of the person."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Decision = Literal["allow", "ask", "deny"]
Pattern = Literal["", "command", "path", "url"]
"""What the brackets of `tool(pattern)` hold: nothing, the words of a command, globs for paths, or a
site as domain:name. It is held against the argument of a call that has this name."""


@dataclass(frozen=True)
class Rule:
    """`pattern` "" is everything the tool does. `origin` says where it was set. `here`: the person
    made it in this workspace, and not in settings for all."""

    decision: Decision
    tool: str
    pattern: str
    origin: str
    here: bool = False

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool
