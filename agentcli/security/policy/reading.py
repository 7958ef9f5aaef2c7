"""Which of the user's rules hold wherever a file is opened."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from agentcli.security.policy.file_patterns import pattern_matches
from agentcli.security.policy.rule import Rule
from agentcli.workspace.access_scope import AccessScope
from agentcli.workspace.reading_rules import ReadingRule, ReadingRules

READING = "read"
"""Rules for this tool cover whatever reads files."""


def reading_rules(
    rules: Iterable[Rule], workspace: Path, home: Path, *, asks: bool, scope: AccessScope | None
) -> ReadingRules:
    """Return what `rules` say about reading. Those without a pattern are about calls alone."""
    return ReadingRules(
        [
            ReadingRule(
                rule.decision,
                "" if rule.tool == READING else rule.tool,
                partial(pattern_matches, rule.pattern, workspace=workspace, home=home),
                f"the rule {rule} of {rule.origin}",
            )
            for rule in rules
            if rule.pattern
        ],
        asks,
        scope,
    )
