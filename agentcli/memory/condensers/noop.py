"""noop: everything stays in sight, until it does not fit any more."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.events.actions import CondensationAction
from agentcli.memory.condensers.base import Condenser, Options
from agentcli.memory.view import View


@dataclass(frozen=True)
class Noop:
    def condense(self, view: View) -> CondensationAction | None:
        return None


def build(options: Options) -> Condenser:
    return Noop()
