"""Passing notices: delivered to subscribers, never stored."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """The name of a tool call is in the stream; its arguments are still coming."""

    name: str


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """Live output of the action with this id."""

    action_id: int
    text: str


@dataclass(frozen=True, slots=True)
class ReplyAbandoned:
    """What was streamed of this reply is void: it will be asked for again, or the run ends."""

    reason: str


@dataclass(frozen=True, slots=True)
class StepDone:
    iteration: int


@dataclass(frozen=True, slots=True)
class Status:
    """`phase` is thinking, running, saving, waiting or retrying; `until_s` counts seconds down."""

    phase: str
    detail: str = ""
    until_s: float | None = None


@dataclass(frozen=True, slots=True)
class ChildProgress:
    """What the child that carries out the delegation `action_id` does now; `cost_usd` None: not
    known."""

    action_id: int
    doing: str
    steps: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Notice:
    """A line for the person that is not part of the session's history."""

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
