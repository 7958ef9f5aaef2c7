"""Values passed to and from subscribers but never stored: transient notices, approvals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The name of a tool call has been streamed; its arguments are still to come."""

    name: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Live output of the action with this id."""

    action_id: int
    text: str


@dataclass(frozen=True, slots=True)
class ReplyAbandoned:
    """What was streamed of this reply is void: the reply is requested again, or the run ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class StepDone:
    iteration: int


@dataclass(frozen=True, slots=True)
class Status:
    """`phase` is thinking, running, saving, waiting or retrying; `until_s` counts down seconds."""

    phase: str
    detail: str = ""
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChildProgress:
    """What the child of the delegation `action_id` is doing now; `cost_usd` None: unknown."""

    action_id: int
    doing: str
    steps: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the user that does not become part of the session's history."""

    text: str


Progress = (
    TextDelta
    | ReasoningDelta
    | ToolCallStarted
    | ToolOutput
    | ReplyAbandoned
    | StepDone
    | Status
    | ChildProgress
    | Notice
)


Scope = Literal["once", "session", "always"]


@dataclass(frozen=True, slots=True)
class Approval:
    """`reason` is what the user wants the model to know; `scope` says how long `rule` holds: not at
    all, for this session, or from now on in this workspace."""

    allowed: bool
    scope: Scope = "once"
    reason: str = ""
    rule: str = ""
