"""Puts a session's policy together: rules, hard blocks, ratings.

Parsers of commands and patterns of risks take longer to load than all else before the first
request, so that they are loaded when the first action is to be judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agentcli.app.config import user_file
from agentcli.events import Action, Risk
from agentcli.events.observations import DecisionObservation
from agentcli.git.repository_files import begin
from agentcli.tools.collection import rule_patterns

if TYPE_CHECKING:
    from pathlib import Path

    from agentcli.files.access_scope import Kept
    from agentcli.git.reading_risks import GitFacts
    from agentcli.sandbox.choosing import Sandbox
    from agentcli.security.policy.policy import Policy
    from agentcli.security.policy.rule import Decision, Rule
    from agentcli.security.policy.saved_rules import SavedRules
    from agentcli.settings import Settings
    from agentcli.tools.base import ToolContext
    from agentcli.tools.collection import ToolCollection

RULES_FILE = "rules"
REPOSITORY_FILE = "repository.json"
"""Of a session: what its repository was like when it began."""


def check_rules(settings: Settings, environ: Mapping[str, str], workspace: Path) -> list[str]:
    """Raises ConfigError for a rule that is none. Returns lines for the person about saved ones
    that were left out."""
    for _ in _rules(settings):
        pass
    if not _saved_file(environ).exists():
        return []
    saved = _saved_rules(environ)
    saved.load(workspace, rule_patterns())
    return saved.notices


@dataclass
class SessionPolicy:
    """The policy of a session, made when it is first asked; its rules are known to be good."""

    settings: Settings
    environ: Mapping[str, str]
    workspace: Path
    sandbox: Sandbox
    tools: ToolCollection
    context: ToolContext
    ask_judge: Callable[[str], str]
    kept: Callable[[], Kept | None]
    """What checkpoints hold; None: there are none."""

    def begin(self) -> None:
        """Keep what the repository is like as the session begins."""
        begin(self.workspace, self._repository)

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        return self._policy.decide(action, grants)

    def grant_for(self, action: Action) -> str:
        return self._policy.grant_for(action)

    def to_keep(self, action: Action) -> list[Path]:
        """Files that a checkpoint leaves out, and that it should hold because `action` names
        them."""
        kept = self.kept()
        return self._policy.losses(action, kept).keepable if kept and kept.left_out else []

    def save_rule(self, rules: str) -> None:
        """Keep what a person allowed always, for this workspace. Raises ConfigError."""
        from agentcli.security.policy.rules import parse_grants

        self._saved.add(self.workspace, parse_grants(rules))

    @property
    def _repository(self) -> Path:
        return self.context.outputs.with_name(REPOSITORY_FILE)

    @cached_property
    def _git(self) -> GitFacts:
        from agentcli.git.reading_risks import GitFacts

        scope = self.sandbox.scope
        places = (*scope.writable, *scope.mounts, *scope.mounts.values())

        def changeable(path: Path) -> bool:
            return any(map(path.is_relative_to, places))

        return GitFacts(self.workspace, self._repository, self.environ, changeable)

    @cached_property
    def _saved(self) -> SavedRules:
        return _saved_rules(self.environ)

    @cached_property
    def _policy(self) -> Policy:
        from agentcli.security.policy.hard_blocks import HardBlocks
        from agentcli.security.policy.policy import Policy
        from agentcli.security.risk.analyzer import Analyzer

        scope, settings = self.sandbox.view, self.settings
        return Policy(
            mode=settings.agent.approval,
            contained=self.sandbox.contains,
            scope=scope,
            rules=(*_rules(self.settings), *self._saved.load(self.workspace, rule_patterns())),
            effect_of=self.tools.effect,
            locate=self.context.files.locate,
            rate=Analyzer(list(self._analyzers())).rate,
            blocked=HardBlocks(
                scope, self._cwd, self.environ, self.tools.effect, self.sandbox.contains
            ),
            confirm=settings.security.confirm,
            network=settings.sandbox.network,
            cwd=self._cwd,
            git=lambda: self._git,
            kept=self.kept,
            exported=lambda: self.context.shell.exports,
        )

    def _cwd(self) -> str:
        return self.context.shell.cwd

    def _analyzers(self) -> Iterator[Callable[[Action], tuple[Risk, str]]]:
        from agentcli.security.risk.analyzer import model_rating
        from agentcli.security.risk.judge import Judge
        from agentcli.security.risk.rating import rate_by_rules

        for name in self.settings.security.analyzers:
            if name == "rules":

                def by_rules(action: Action) -> tuple[Risk, str]:
                    return rate_by_rules(action, self.sandbox.view, self._cwd())

                yield by_rules
            elif name == "model_rating":
                yield model_rating
            else:
                yield Judge(self.ask_judge)


def _rules(settings: Settings) -> Iterator[Rule]:
    security = settings.security
    lists: dict[Decision, list[str]] = {
        "deny": security.deny,
        "ask": security.ask,
        "allow": security.allow,
    }
    for decision, texts in lists.items():
        for text in texts:
            from agentcli.security.policy.rules import check_rule, parse_rule

            yield check_rule(parse_rule(text, decision, f"security.{decision}"), rule_patterns())


def _saved_file(environ: Mapping[str, str]) -> Path:
    return user_file(environ).with_name(RULES_FILE)


def _saved_rules(environ: Mapping[str, str]) -> SavedRules:
    from agentcli.security.policy.saved_rules import SavedRules

    return SavedRules(_saved_file(environ))
