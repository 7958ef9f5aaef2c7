"""window: the oldest whole steps go when the window is to be shorter."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.events.actions import CondensationAction
from agentcli.memory.condensers.base import (
    Condenser,
    Options,
    first_forgotten,
    forget,
    oldest_steps,
)
from agentcli.memory.summary import notice
from agentcli.memory.view import Step, View


@dataclass(frozen=True)
class Window:
    brief: bool = False
    """With a notice of a few words, where a longer one would be more than what goes."""

    def condense(self, view: View) -> CondensationAction | None:
        if not view.due:
            return None
        gone = oldest_steps(view, view.target())
        return dropped(view, gone, view.decision.reason, brief=self.brief)


def dropped(
    view: View, gone: list[Step], reason: str, *, brief: bool = False
) -> CondensationAction | None:
    """`gone` forgotten with a notice in their place; None when there are none."""
    if not gone:
        return None
    first, last = first_forgotten(view, gone)
    text = f"[Events {first} to {last} are left out.]" if brief else notice(view, first, last)
    return forget(view, gone, text, f"{reason}; dropped")


def build(options: Options) -> Condenser:
    return Window()
