"""The policy of a session, built when the first action is to be judged.

The reader of shell commands takes longer to load (100 ms) than everything else before the first
request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from agentcli.app.configuration.places import rules_file
from agentcli.app.policy.parts import PolicyParts
from agentcli.events import Action
from agentcli.events.observations import DecisionObservation
from agentcli.git.git_config_risks import snapshot_repository_config
from agentcli.security.policy.rule import Rule
from agentcli.security.policy.rule import reading_rules as of_rules
from agentcli.settings import Settings
from agentcli.system.homes import user_home
from agentcli.workspace.guard import ReadingRules
from agentcli.workspace.scope import AccessScope, Coverage

if TYPE_CHECKING:
    from agentcli.app.policy.full_policy import FullPolicy


def check_rules(settings: Settings, environ: Mapping[str, str], workspace: Path) -> list[str]:
    """Return lines for the user about saved rules that were left out. Raises ConfigError for an
    invalid rule in the settings."""
    if not _has_rules(settings, environ):
        return []
    from agentcli.app.policy.rules import checked_rules

    return checked_rules(settings, environ, workspace)


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
    if _has_rules(settings, environ):
        from agentcli.app.policy.rules import rules_about_reading

        rules = rules_about_reading(settings, environ, workspace)
    asks = settings.agent.approval != "yolo"
    return of_rules(rules, workspace, user_home(environ), asks=asks, scope=scope)


def _has_rules(settings: Settings, environ: Mapping[str, str]) -> bool:
    security = settings.security
    return bool(security.allow or security.ask or security.deny or rules_file(environ).exists())


class SessionPolicy:
    """Judges the actions of a session; see FullPolicy. Its rules have been checked before."""

    def __init__(self, parts: PolicyParts) -> None:
        self._parts = parts

    @property
    def mode(self) -> str:
        """The approval mode, which says what runs unasked."""
        return self._parts.agent.approval

    def begin(self) -> None:
        """Record the state of the repository as the session begins."""
        snapshot_repository_config(self._parts.containment.workspace, self._parts.repository)

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        return self._full.policy.decide(action, grants)

    def judge_url(self, url: str) -> Literal["allow", "ask", "deny"]:
        """Decide about an address that another one redirects to."""
        return self._full.judge_url(url)

    def why_unread(self, path: Path) -> str:
        """Return which rule denies reading the file at a resolved path; "" if none does."""
        return self.reading.objection(str(path))

    def grant_for(self, action: Action) -> str:
        return self._full.policy.grant_for(action)

    def grant_choices(self, action: Action) -> Sequence[str]:
        return self._full.policy.grant_choices(action)

    def grant_objection(self, action: Action, text: str) -> str:
        return self._full.policy.grant_objection(action, text)

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
        self.__dict__.pop("_full", None)
        self.__dict__.pop("reading", None)

    def files_to_keep(self, action: Action) -> list[Path]:
        """Return files that checkpoints leave out but should hold, as `action` names them."""
        coverage = self._parts.coverage()
        return (
            self._full.policy.losses(action, coverage).checkpointable
            if coverage and coverage.left_out
            else []
        )

    def save_rule(self, rules: str) -> None:
        """Save rules for what the user always allows in this workspace. Raises ConfigError."""
        self._full.save_rule(rules)

    @cached_property
    def reading(self) -> ReadingRules:
        """The rules about reading files."""
        containment = self._parts.containment
        settings = containment.settings.model_copy(update={"agent": self._parts.agent})
        view = containment.sandbox.view
        return reading_rules(settings, containment.environ, containment.workspace, view)

    @cached_property
    def _full(self) -> FullPolicy:
        from agentcli.app.policy.full_policy import FullPolicy

        return FullPolicy(self._parts)
