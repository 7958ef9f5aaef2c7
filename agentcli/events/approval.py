"""The user's answer to the question whether an action may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Scope = Literal["once", "session", "always"]


@dataclass(frozen=True, slots=True)
class Approval:
    """`reason` is what the user wants the model to know; `scope` says how long `rule` holds: not at
    all, for this session, or from now on in this workspace."""

    allowed: bool
    scope: Scope = "once"
    reason: str = ""
    rule: str = ""
