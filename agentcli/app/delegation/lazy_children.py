"""Delegation as a session starts with it: the code that does it is loaded on first use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from agentcli.app.delegation.agents import KnownAgents
from agentcli.app.delegation.child_parent import Parent
from agentcli.events import Observation
from agentcli.events.actions import AgentDelegateAction

if TYPE_CHECKING:
    from agentcli.app.delegation.children import Children


class LazyChildren:
    """The children of a session, loaded together with the first of them: see `agent.Children`."""

    def __init__(self, parent: Parent, agents: KnownAgents) -> None:
        self._parent = parent
        self._agents = agents

    def runs_beside_others(self, action: AgentDelegateAction) -> bool:
        return self._children.runs_beside_others(action)

    def carry_out(self, actions: Sequence[AgentDelegateAction]) -> Iterator[Observation]:
        return self._children.carry_out(actions)

    def give_up(self) -> None:
        pending = self._parent.session.pending_actions()
        if any(isinstance(action, AgentDelegateAction) for action in pending):
            self._children.give_up()

    @cached_property
    def _children(self) -> Children:
        from agentcli.app.delegation.children import Children

        return Children(self._parent, self._agents)
