"""The complete policy of a session: what an action must pass before it runs, in this order.

1. `_hard_block`: what never runs, whatever the mode, the rules and the user say.
2. `Policy` (security/policy/policy.py): hidden files, rules that deny, plan mode, rules that ask,
   rules that allow; then what the approval mode lets run unasked.
3. `_ratings`, where the mode leaves it to the risk.

What passes is asked of the user's hooks, and of the user if the policy says so
(agent/act.py).
"""

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
from agentcli.git.git_config_risks import RepositoryJudge
from agentcli.security.policy.hard_blocks import HardBlocks
from agentcli.security.policy.policy import Policy
from agentcli.security.policy.rule import Decision
from agentcli.security.policy.rules import SavedRules, parse_grants
from agentcli.security.risk_judge import Analyzer, Judge, model_rating
from agentcli.security.risk_rating import rate_by_rules
from agentcli.tools.registry import rule_patterns
from agentcli.web.addresses import refused_at_once


class FullPolicy:
    """The policy made of `parts`."""

    def __init__(self, parts: PolicyParts) -> None:
        self._parts = parts
        containment, context = parts.containment, parts.context
        settings, sandbox = containment.settings, containment.sandbox
        self._saved = SavedRules(rules_file(containment.environ))
        saved = self._saved.load(containment.workspace, rule_patterns())
        self.policy = Policy(
            mode=parts.agent.approval,
            contained=sandbox.contains,
            scope=sandbox.view,
            rules=(*settings_rules(settings), *saved),
            effect_of=parts.tools.effect,
            locate=context.files.locate,
            rate=Analyzer(list(self._ratings())).rate,
            blocked=self._hard_block,
            confirm=settings.security.confirm,
            network=settings.sandbox.network,
            own_loopback=sandbox.own_loopback,
            cwd=self._cwd,
            git=lambda: self._git,
            coverage=parts.coverage,
            exported=lambda: context.shell.current_exports(),
        )

    def judge_url(self, url: str) -> Decision:
        """Decide about an address that another one redirects to."""
        call = ToolCallMetadata(function_name="fetch", tool_call_id="", raw_arguments="")
        action = BrowseURLAction(url=url, tool_call_metadata=call)
        return self.policy.decide(action, self._parts.session.state.grants).decision

    def save_rule(self, rules: str) -> None:
        self._saved.add(self._parts.containment.workspace, parse_grants(rules))

    def _hard_block(self, action: Action) -> str:
        """Return why `action` may never run; "" if it may."""
        return self._secret_sent(action) or self._refused_address(action) or self._blocks(action)

    def _secret_sent(self, action: Action) -> str:
        """Return why what goes to a site may not, because it holds a secret; "" if it may."""
        match action:
            case BrowseInteractiveAction():
                typed = [text for step in action.steps for text in step.values()]
                if self._is_secret(*typed, unquote(action.url or "")):
                    return "it holds a secret, which is sent nowhere"
            case BrowseURLAction() if self._is_secret(action.url, unquote(action.url)):
                return "the address holds a secret, which is sent nowhere"
        return ""

    def _is_secret(self, *texts: str) -> bool:
        return any(self._parts.session.redact(text) != text for text in texts)

    def _refused_address(self, action: Action) -> str:
        """Return why an address must never be fetched; "" if it may be, or nothing is fetched."""
        if not isinstance(action, BrowseURLAction):
            return ""
        return refused_at_once(action.url, self._parts.context.page_limits.open_ports)

    @cached_property
    def _blocks(self) -> HardBlocks:
        parts, sandbox = self._parts, self._parts.containment.sandbox
        environ, effect = parts.containment.environ, parts.tools.effect
        return HardBlocks(sandbox.view, self._cwd, environ, effect, sandbox.contains)

    @cached_property
    def _git(self) -> RepositoryJudge:
        containment, scope = self._parts.containment, self._parts.containment.sandbox.scope
        places = (*scope.writable, *scope.mounts, *scope.mounts.values())

        def changeable(path: Path) -> bool:
            return any(map(path.is_relative_to, places))

        return RepositoryJudge(
            containment.workspace, self._parts.repository, containment.environ, changeable
        )

    def _cwd(self) -> str:
        return self._parts.context.shell.cwd

    def _ratings(self) -> Iterator[Callable[[Action], tuple[Risk, str]]]:
        """Yield what rates the risk of an action, as the settings have it."""

        def by_rules(action: Action) -> tuple[Risk, str]:
            return rate_by_rules(action, self._parts.containment.sandbox.view, self._cwd())

        for name in self._parts.containment.settings.security.analyzers:
            match name:
                case "rules":
                    yield by_rules
                case "model_rating":
                    yield model_rating
                case "judge":
                    yield Judge(self._parts.judge)
