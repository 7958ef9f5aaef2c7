"""window: drops the oldest whole steps when the window must be shorter."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.events.actions import CondensationAction
from agentcli.memory.condenser import (
    CondenserKind,
    first_forgotten,
    forget,
    oldest_by_count,
    oldest_steps,
)
from agentcli.memory.summary import notice
from agentcli.memory.view import View


@dataclass(frozen=True)
class DropOldest:
    """Drops the oldest steps, down to `share` of `max_events` if there are more (0: no limit), so
    that the prefix stays the same for a while."""

    keep_first: int = 0
    max_events: int = 0
    share: float = 0.75
    brief: bool = False
    """Leave a notice of a few words, for when a longer one would take more than what goes."""

    def condense(self, view: View) -> CondensationAction | None:
        if 0 < self.max_events < view.count:
            excess = view.count - int(self.max_events * self.share)
            gone = oldest_by_count(view, excess, self.keep_first)
            reason = f"{view.count} events, over {self.max_events}"
        else:
            gone = oldest_steps(view, view.target(), self.keep_first) if view.due else []
            reason = view.decision.reason
        if not gone:
            return None
        first, last = first_forgotten(view, gone)
        short = f"[Events {first} to {last} are left out.]"
        return forget(
            view, gone, short if self.brief else notice(view, first, last), f"{reason}; dropped"
        )


CONDENSER = CondenserKind(lambda options: DropOldest())
