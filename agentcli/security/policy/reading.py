"""Which files the user's rules keep from being read, whatever reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.security.policy.file_patterns import pattern_matches
from agentcli.security.policy.rule import Rule

READING = "read"
"""Rules for this tool cover whatever reads files."""


@dataclass(frozen=True)
class ReadingRules:
    """The rules about files by name. A rule without a pattern is about calls of tools alone."""

    rules: Sequence[Rule]
    workspace: Path
    home: Path
    asks: bool = True
    """Whether rules that ask count; in `yolo` mode they don't."""

    def objection(self, path: str, tool: str, unasked: bool) -> str:
        """Return why a rule keeps `tool` ("": whatever reads) from the file at the resolved
        `path`; "" if none does. With `unasked`, rules that ask count like those that deny."""
        for rule in self.rules:
            if rule.decision == "deny" and self._is_about(rule, path, tool):
                return f"the rule {rule} of {rule.origin} denies it"
        for rule in self.rules if unasked and self.asks else ():
            if rule.decision == "ask" and self._is_about(rule, path, tool):
                return f"the rule {rule} of {rule.origin} asks for it"
        return ""

    def _is_about(self, rule: Rule, path: str, tool: str) -> bool:
        return (
            bool(rule.pattern)
            and rule.tool in (READING, tool)
            and pattern_matches(rule.pattern, path, self.workspace, self.home)
        )
