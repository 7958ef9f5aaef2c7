"""The policy of a session, made when the first action is to be judged.

What reads commands takes longer to load (100 ms) than all else before the first request.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.app.config import rules_file
from agentcli.app.policy_parts import PolicyParts
from agentcli.events import Action
from agentcli.events.observations import DecisionObservation
from agentcli.git.repository_changes import note_repository
from agentcli.settings import Settings

if TYPE_CHECKING:
    from agentcli.app.full_policy import FullPolicy


def check_rules(settings: Settings, environ: Mapping[str, str], workspace: Path) -> list[str]:
    """Raises ConfigError for a rule that is none. Returns lines for the person about saved ones
    that were left out."""
    security = settings.security
    if not (security.allow or security.ask or security.deny or rules_file(environ).exists()):
        return []
    from agentcli.app.policy_rules import checked_rules

    return checked_rules(settings, environ, workspace)


class SessionPolicy:
    """Judges the actions of a session; its rules are known to be good."""

    def __init__(self, parts: PolicyParts) -> None:
        self._parts = parts

    @property
    def mode(self) -> str:
        """What runs unasked now."""
        return self._parts.settings.agent.approval

    def begin(self) -> None:
        """Keep what the repository is like as the session begins."""
        note_repository(self._parts.workspace, self._parts.repository)

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        return self._full.policy.decide(action, grants)

    def grant_for(self, action: Action) -> str:
        return self._full.policy.grant_for(action)

    def grant_choices(self, action: Action) -> Sequence[str]:
        return self._full.policy.grant_choices(action)

    def grant_objection(self, action: Action, text: str) -> str:
        return self._full.policy.grant_objection(action, text)

    def set_mode(self, mode: str) -> None:
        """What runs unasked from the next action on. The sandbox stays as it is."""
        settings = self._parts.settings
        agent = settings.agent.model_copy(update={"approval": mode})
        self._parts = replace(self._parts, settings=settings.model_copy(update={"agent": agent}))
        self.reload()

    def use_judge(self, ask: Callable[[str], str]) -> None:
        """Who is asked from now on how risky an action is."""
        self._parts = replace(self._parts, ask_judge=ask)
        self.reload()

    def reload(self) -> None:
        """Saved rules have changed."""
        self.__dict__.pop("_full", None)

    def to_keep(self, action: Action) -> list[Path]:
        """Files that a checkpoint leaves out, and that it should hold because `action` names
        them."""
        coverage = self._parts.coverage()
        return (
            self._full.policy.losses(action, coverage).keepable
            if coverage and coverage.left_out
            else []
        )

    def save_rule(self, rules: str) -> None:
        """Keep what a person allowed always, for this workspace. Raises ConfigError."""
        self._full.save_rule(rules)

    @cached_property
    def _full(self) -> FullPolicy:
        from agentcli.app.full_policy import FullPolicy

        return FullPolicy(self._parts)
