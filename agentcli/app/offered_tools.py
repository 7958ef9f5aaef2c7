"""What of its tools a new session offers its model: what can be of use there. The rest works, but
costs no tokens. A session keeps its offer for life, whoever continues it, so that the prompt stays
as it is for the provider's cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agentcli.app.containment import Containment
from agentcli.app.policy import has_rules, rules_in_force
from agentcli.errors import SessionError
from agentcli.sessions.library import library_of
from agentcli.tools.base import Tool

if TYPE_CHECKING:
    from agentcli.knowledge.notes import Notes

_OF_WIDER_ACCESS = frozenset({"network", "unsandboxed", "reason"})
"""Arguments of bash that are refused unless a user, a rule or the mode allows what they ask for."""
_OF_QUESTIONS = frozenset({"risk"})
"""Arguments of bash that decide whether the user is asked."""


@dataclass(frozen=True)
class Offer:
    """`asks`: a user can be asked; `interactive`: the user reads each answer in a conversation."""

    asks: bool
    interactive: bool
    containment: Containment
    notes: Notes | None

    def suited(self, tools: Iterable[Tool[Any]]) -> Iterator[Tool[Any]]:
        """Yield `tools`, of which some are not offered, or not with all arguments."""
        useful = {
            "ask": lambda: self.asks,
            # Nobody but the caller of a run, or a parent, sees whether the task failed.
            "finish": lambda: not self.interactive,
            "memory": lambda: self.asks or self.interactive or self._has_notes(),
            "session_search": self._has_earlier_sessions,
        }
        for tool in tools:
            if tool.name == "bash":
                yield replace(tool, untold=self._useless_of_bash())
            elif tool.name in useful and not useful[tool.name]():
                yield replace(tool, offered=False)
            else:
                yield tool

    def _useless_of_bash(self) -> frozenset[str]:
        if self.asks:
            return frozenset()
        may_widen = self.containment.sandbox.contains and self._is_wider_access_possible()
        return _OF_QUESTIONS if may_widen else _OF_QUESTIONS | _OF_WIDER_ACCESS

    def _is_wider_access_possible(self) -> bool:
        """Whether a command may get more access although nobody can be asked."""
        containment = self.containment
        settings, environ = containment.settings, containment.environ
        if settings.agent.approval == "yolo":
            return True
        if not has_rules(settings, environ):
            return False
        of_settings, saved = rules_in_force(settings, environ, containment.workspace)
        return any(rule.decision == "allow" for rule in (*of_settings, *saved))

    def _has_notes(self) -> bool:
        notes = self.notes
        return notes is not None and (notes.has("memory") or notes.has("user"))

    def _has_earlier_sessions(self) -> bool:
        own = self.containment.session_folder.name
        try:
            stamps = library_of(self.containment.agent_home).stamps()
            return any(session_id != own for session_id, _ in stamps)
        except SessionError:
            return False
