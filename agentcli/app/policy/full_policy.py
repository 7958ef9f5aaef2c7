"""Builds a session's complete policy: rules, hard blocks, ratings of risk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from agentcli.app.configuration.places import rules_file
from agentcli.app.policy.parts import PolicyParts
from agentcli.app.policy.rules import settings_rules
from agentcli.events import Action, Risk, ToolCallMetadata
from agentcli.events.actions import BrowseInteractiveAction, BrowseURLAction
from agentcli.git.reading_risks import RepositoryJudge
from agentcli.security.policy.hard_blocks import HardBlocks
from agentcli.security.policy.policy import Policy
from agentcli.security.policy.rule import Decision
from agentcli.security.policy.rules import parse_grants
from agentcli.security.policy.saved_rules import SavedRules
from agentcli.security.risk.analyzer import Analyzer, model_rating
from agentcli.security.risk.judge import Judge
from agentcli.security.risk.rating import rate_by_rules
from agentcli.tools.collection import rule_patterns
from agentcli.web.addresses import refused_at_once


class FullPolicy:
    """The policy made of `parts`."""

    def __init__(self, parts: PolicyParts) -> None:
        self._parts = parts
        self._saved = SavedRules(rules_file(parts.environ))
        scope, settings, context = parts.sandbox.view, parts.settings, parts.context
        self.policy = Policy(
            mode=settings.agent.approval,
            contained=parts.sandbox.contains,
            scope=scope,
            rules=(*settings_rules(settings), *self._saved.load(parts.workspace, rule_patterns())),
            effect_of=parts.tools.effect,
            locate=context.files.locate,
            rate=Analyzer(list(self._analyzers())).rate,
            blocked=lambda action: self._no_page(action) or self._hard_blocks(action),
            confirm=settings.security.confirm,
            network=settings.sandbox.network,
            own_loopback=parts.sandbox.own_loopback,
            cwd=self._cwd,
            git=lambda: self._git,
            coverage=parts.coverage,
            exported=lambda: context.shell.exports,
        )

        context.judge_url = self._judge_url

    @cached_property
    def _hard_blocks(self) -> HardBlocks:
        parts = self._parts
        return HardBlocks(
            parts.sandbox.view,
            self._cwd,
            parts.environ,
            parts.tools.effect,
            parts.sandbox.contains,
        )

    def _no_page(self, action: Action) -> str:
        """Return why an address must never be fetched, or a page never acted on; "" if it may be,
        or the action does neither."""
        if isinstance(action, BrowseInteractiveAction):
            given = [text for step in action.steps for text in step.values()]
            told = (*given, unquote(action.url or ""))
            secret = any(self._parts.mask(text) != text for text in told)
            return "it holds a secret, which is sent nowhere" if secret else ""
        if not isinstance(action, BrowseURLAction):
            return ""
        if any(self._parts.mask(url) != url for url in (action.url, unquote(action.url))):
            return "the address holds a secret, which is sent nowhere"
        return refused_at_once(action.url, self._parts.context.page_limits.open_ports)

    def _judge_url(self, url: str) -> Decision:
        """Decide about an address that another one redirects to."""
        call = ToolCallMetadata(function_name="fetch", tool_call_id="", raw_arguments="")
        action = BrowseURLAction(url=url, tool_call_metadata=call)
        return self.policy.decide(action, self._parts.grants()).decision

    def save_rule(self, rules: str) -> None:
        self._saved.add(self._parts.workspace, parse_grants(rules))

    @cached_property
    def _git(self) -> RepositoryJudge:
        parts, scope = self._parts, self._parts.sandbox.scope
        places = (*scope.writable, *scope.mounts, *scope.mounts.values())

        def changeable(path: Path) -> bool:
            return any(map(path.is_relative_to, places))

        return RepositoryJudge(parts.workspace, parts.repository, parts.environ, changeable)

    def _cwd(self) -> str:
        return self._parts.context.shell.cwd

    def _analyzers(self) -> Iterator[Callable[[Action], tuple[Risk, str]]]:
        def by_rules(action: Action) -> tuple[Risk, str]:
            return rate_by_rules(action, self._parts.sandbox.view, self._cwd())

        for name in self._parts.settings.security.analyzers:
            match name:
                case "rules":
                    yield by_rules
                case "model_rating":
                    yield model_rating
                case "judge":
                    yield Judge(self._parts.ask_judge)
