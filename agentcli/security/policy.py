"""Which actions run unasked while no sandbox contains them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcli.events import Action
from agentcli.events.observations import DecisionObservation

Approval = Literal["ask", "yolo"]
_GRANTS = {"execute": "all commands", "write": "all writes outside the workspace"}


@dataclass(frozen=True)
class Policy:
    """`ask`: reading and edits in the workspace run, the rest is asked. `yolo`: everything runs.

    `effect_of` gives the declared effect of an action's tool: read, write, execute or network;
    `locate` the file that a tool would take a path for.
    """

    mode: Approval
    workspace: Path
    effect_of: Callable[[Action], str]
    locate: Callable[[str], Path]

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        effect = self.effect_of(action)
        if self.mode == "yolo" or effect == "read" or self.grant_for(action) in grants:
            return _decision(action, "allow", effect)
        if effect == "write":
            if self._inside(action):
                return _decision(action, "allow", effect)
            return _decision(action, "ask", effect, "the file is outside the workspace")
        return _decision(action, "ask", effect, "no sandbox contains it")

    def grant_for(self, action: Action) -> str:
        return _GRANTS.get(self.effect_of(action), "all calls of this kind")

    def _inside(self, action: Action) -> bool:
        path = getattr(action, "path", None)
        if not isinstance(path, str):
            return False
        return self.locate(path).resolve().is_relative_to(self.workspace.resolve())


def _decision(
    action: Action, decision: Literal["allow", "ask"], rule: str, reason: str = ""
) -> DecisionObservation:
    return DecisionObservation(
        cause=action.id, decision=decision, by="policy", rule=rule, reason=reason
    )
