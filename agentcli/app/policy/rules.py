"""The rules of a session: those in its settings, and those the user saved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from agentcli.app.configuration.places import rules_file
from agentcli.errors import UsageError
from agentcli.security.policy.rule import Decision, Rule
from agentcli.security.policy.rules import SavedRules, check_rule, parse_rule
from agentcli.settings import Settings
from agentcli.tools.base import Effect
from agentcli.tools.registry import TOOLS, rule_patterns

_DECISIONS: tuple[Decision, ...] = ("deny", "ask", "allow")


def checked_rules(settings: Settings, environ: Mapping[str, str], workspace: Path) -> list[str]:
    """Return lines for the user about saved rules that were left out. Raises ConfigError for an
    invalid rule in the settings."""
    settings_rules(settings)
    saved = SavedRules(rules_file(environ))
    saved.load(workspace, rule_patterns())
    return saved.notices


def rules_in_force(
    settings: Settings, environ: Mapping[str, str], workspace: Path
) -> tuple[list[Rule], list[Rule]]:
    """Return the rules in the settings, and those saved for this workspace."""
    saved = SavedRules(rules_file(environ)).load(workspace, rule_patterns())
    return settings_rules(settings), list(saved)


def rules_about_reading(
    settings: Settings, environ: Mapping[str, str], workspace: Path
) -> list[Rule]:
    """Return the rules in force that are about tools which read files."""
    every = TOOLS.all()
    found = (rule for rules in rules_in_force(settings, environ, workspace) for rule in rules)
    return [r for r in found if r.tool in every and every[r.tool].effect is Effect.READ]


def forget_rule(environ: Mapping[str, str], workspace: Path, text: str) -> None:
    """Remove the saved rule `text` of this workspace. Raises UsageError if there is no such rule,
    ConfigError if its file can't be written."""
    if not SavedRules(rules_file(environ)).remove(workspace, text):
        raise UsageError(f"no rule {text!r} is saved for this folder", hint="see /permissions")


def settings_rules(settings: Settings) -> list[Rule]:
    """Return the rules in the settings. Raises ConfigError for an invalid one."""
    return [
        check_rule(parse_rule(text, decision, f"security.{decision}"), rule_patterns())
        for decision in _DECISIONS
        for text in getattr(settings.security, decision)
    ]
