"""The policy of a session: what an action must pass before it runs, in this order.

1. `_hard_block`: what never runs, whatever the mode, the rules and the user say.
2. `Policy` (security/policy/policy.py): hidden files, rules that deny, plan mode, rules that ask,
   rules that allow; then what the approval mode lets run unasked.
3. `_ratings`, where the mode leaves it to the risk.

What passes is asked of the user's hooks, and of the user if the policy says so (agent/act.py).

All this is put together when the first action is to be judged: the reader of shell commands takes
longer to load (100 ms) than everything else before the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from agentcli.app.configuration.places import rules_file
from agentcli.app.containment import Containment
from agentcli.errors import UsageError
from agentcli.events import Action, Risk, ToolCallMetadata
from agentcli.events.actions import BrowseInteractiveAction, BrowseURLAction
from agentcli.events.observations import DecisionObservation
from agentcli.git.git_config_risks import RepositoryJudge, snapshot_repository_config
from agentcli.security.policy.rule import Decision, Rule
from agentcli.security.policy.rule import reading_rules as of_rules
from agentcli.sessions.session import SessionLog
from agentcli.settings import AgentSettings, Settings
from agentcli.system.homes import user_home
from agentcli.tools.base import Effect, ToolContext
from agentcli.tools.registry import TOOLS, ToolRegistry, rule_patterns
from agentcli.web.addresses import refused_at_once
from agentcli.workspace.guard import ReadingRules
from agentcli.workspace.scope import AccessScope, Coverage

if TYPE_CHECKING:
    from agentcli.security.policy.hard_blocks import HardBlocks
    from agentcli.security.policy.policy import Policy

_DECISIONS: tuple[Decision, ...] = ("deny", "ask", "allow")


def check_rules(settings: Settings, environ: Mapping[str, str], workspace: Path) -> list[str]:
    """Return lines for the user about saved rules that were left out, and about rules that can't
    match anything. Raises ConfigError for an invalid rule in the settings."""
    if not has_rules(settings, environ):
        return []
    from agentcli.security.policy.rules import SavedRules, why_without_effect

    rules = settings_rules(settings)
    saved = SavedRules(rules_file(environ))
    rules += saved.load(workspace, rule_patterns())
    place = workspace.resolve(), user_home(environ)
    without = (why_without_effect(rule, rule_patterns(), *place) for rule in rules)
    return [*saved.notices, *filter(None, without)]


def rules_in_force(
    settings: Settings, environ: Mapping[str, str], workspace: Path
) -> tuple[list[Rule], list[Rule]]:
    """Return the rules in the settings, and those saved for this workspace."""
    from agentcli.security.policy.rules import SavedRules

    saved = SavedRules(rules_file(environ)).load(workspace, rule_patterns())
    return settings_rules(settings), list(saved)


def forget_rule(environ: Mapping[str, str], workspace: Path, text: str) -> None:
    """Remove the saved rule `text` of this workspace. Raises UsageError if there is no such rule,
    ConfigError if its file can't be written."""
    from agentcli.security.policy.rules import SavedRules

    if not SavedRules(rules_file(environ)).remove(workspace, text):
        raise UsageError(f"no rule {text!r} is saved for this folder", hint="see /permissions")


def settings_rules(settings: Settings) -> list[Rule]:
    """Return the rules in the settings. Raises ConfigError for an invalid one."""
    from agentcli.security.policy.rules import check_rule, parse_rule

    return [
        check_rule(parse_rule(text, decision, f"security.{decision}"), rule_patterns())
        for decision in _DECISIONS
        for text in getattr(settings.security, decision)
    ]


def why_unread(settings: Settings, environ: Mapping[str, str], workspace: Path, path: Path) -> str:
    """Return which rule denies reading the file at the resolved `path`; "" if none does."""
    return reading_rules(settings, environ, workspace).objection(str(path))


def reading_rules(
    settings: Settings,
    environ: Mapping[str, str],
    workspace: Path,
    scope: AccessScope | None = None,
) -> ReadingRules:
    """Return the rules about reading files in a session there that was given `scope`."""
    rules: list[Rule] = []
    if has_rules(settings, environ):
        every = TOOLS.all()
        for found in rules_in_force(settings, environ, workspace):
            read = (r for r in found if r.tool in every and every[r.tool].effect is Effect.READ)
            rules += read
    asks = settings.agent.approval != "yolo"
    return of_rules(rules, workspace, user_home(environ), asks=asks, scope=scope)


def has_rules(settings: Settings, environ: Mapping[str, str]) -> bool:
    security = settings.security
    return bool(security.allow or security.ask or security.deny or rules_file(environ).exists())


@dataclass(frozen=True)
class PolicyParts:
    """What a session's policy is built from. `agent` has the approval mode; `judge` asks a model
    how risky an action is."""

    session: SessionLog
    containment: Containment
    tools: ToolRegistry
    context: ToolContext
    agent: AgentSettings
    judge: Callable[[str], str]
    coverage: Callable[[], Coverage | None] = lambda: None
    """Returns what checkpoints hold; None: there are none."""


class SessionPolicy:
    """Judges the actions of a session. Its rules have been checked before."""

    def __init__(self, parts: PolicyParts) -> None:
        self._parts = parts
        self._repository = parts.session.outputs.with_name("repository.json")
        """The file that records the repository's state at the start of the session."""

    @property
    def mode(self) -> str:
        """The approval mode, which says what runs unasked."""
        return self._parts.agent.approval

    def begin(self) -> None:
        """Record the state of the repository as the session begins."""
        snapshot_repository_config(self._parts.containment.workspace, self._repository)

    # --- what may run

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        return self._policy.decide(action, grants)

    def judge_url(self, url: str) -> Decision:
        """Decide about an address that another one redirects to."""
        call = ToolCallMetadata(function_name="fetch", tool_call_id="", raw_arguments="")
        action = BrowseURLAction(url=url, tool_call_metadata=call)
        return self._policy.decide(action, self._parts.session.state.grants).decision

    def why_unread(self, path: Path) -> str:
        """Return which rule denies reading the file at a resolved path; "" if none does."""
        return self.reading.objection(str(path))

    def grant_for(self, action: Action) -> str:
        return self._policy.grant_for(action)

    def grant_choices(self, action: Action) -> Sequence[str]:
        return self._policy.grant_choices(action)

    def grant_objection(self, action: Action, text: str) -> str:
        return self._policy.grant_objection(action, text)

    def files_to_keep(self, action: Action) -> list[Path]:
        """Return files that checkpoints leave out but should hold, as `action` names them."""
        coverage = self._parts.coverage()
        if not (coverage and coverage.left_out):
            return []
        return self._policy.losses(action, coverage).checkpointable

    # --- what changes it

    def set_mode(self, mode: str) -> None:
        """Set what runs unasked from the next action on. The sandbox stays as it is."""
        agent = self._parts.agent.model_copy(update={"approval": mode})
        self._parts = replace(self._parts, agent=agent)
        self.reload()

    def use_judge(self, judge: Callable[[str], str]) -> None:
        """Have `judge` rate the risk of actions from now on."""
        self._parts = replace(self._parts, judge=judge)
        self.reload()

    def use_coverage(self, coverage: Callable[[], Coverage]) -> None:
        """Let run unasked what `coverage` says that checkpoints can bring back."""
        self._parts = replace(self._parts, coverage=coverage)
        self.reload()

    def reload(self) -> None:
        """Rebuild the policy on next use, as saved rules or parts have changed."""
        for built in ("_policy", "_blocks", "_git", "reading"):
            self.__dict__.pop(built, None)

    def save_rule(self, rules: str) -> None:
        """Save rules for what the user always allows in this workspace. Raises ConfigError."""
        from agentcli.security.policy.rules import SavedRules, parse_grants

        containment = self._parts.containment
        saved = SavedRules(rules_file(containment.environ))
        saved.add(containment.workspace, parse_grants(rules))

    # --- what it is made of

    @cached_property
    def reading(self) -> ReadingRules:
        """The rules about reading files."""
        containment = self._parts.containment
        settings = containment.settings.model_copy(update={"agent": self._parts.agent})
        view = containment.sandbox.view
        return reading_rules(settings, containment.environ, containment.workspace, view)

    @cached_property
    def _policy(self) -> Policy:
        from agentcli.security.policy.policy import Policy
        from agentcli.security.risk_judge import Analyzer

        parts, context = self._parts, self._parts.context
        containment, sandbox = parts.containment, parts.containment.sandbox
        settings, environ = containment.settings, containment.environ
        of_settings, saved = rules_in_force(settings, environ, containment.workspace)
        return Policy(
            mode=parts.agent.approval,
            contained=sandbox.contains,
            scope=sandbox.view,
            rules=(*of_settings, *saved),
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
        from agentcli.security.policy.hard_blocks import HardBlocks

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
            containment.workspace, self._repository, containment.environ, changeable
        )

    def _cwd(self) -> str:
        return self._parts.context.shell.cwd

    def _ratings(self) -> Iterator[Callable[[Action], tuple[Risk, str]]]:
        """Yield what rates the risk of an action, as the settings have it."""
        from agentcli.security.risk_judge import Judge, model_rating
        from agentcli.security.risk_rating import rate_by_rules

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
