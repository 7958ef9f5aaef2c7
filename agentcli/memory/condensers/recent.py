"""recent: the first events and the newest; what is between them goes, a quarter at a time."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.events.actions import CondensationAction
from agentcli.memory.condensers.base import Condenser, Options, oldest_steps, require_room
from agentcli.memory.condensers.summariser import oldest_until
from agentcli.memory.condensers.window import dropped
from agentcli.memory.view import View


@dataclass(frozen=True)
class Recent:
    """Comes down to `share` of `max_events` when there are more; so the prefix holds in between."""

    keep_first: int
    max_events: int
    share: float = 0.75

    def condense(self, view: View) -> CondensationAction | None:
        if view.count > self.max_events:
            excess = view.count - int(self.max_events * self.share)
            gone = oldest_until(view, excess, self.keep_first)
            return dropped(view, gone, f"{view.count} events, over {self.max_events}")
        if view.due:
            gone = oldest_steps(view, view.target(), self.keep_first)
            return dropped(view, gone, view.decision.reason)
        return None


def build(options: Options) -> Condenser:
    """Raises ConfigError when keep_first is not less than half of max_events."""
    require_room(options.keep_first, options.max_events, "max_events")
    return Recent(options.keep_first, options.max_events)
