"""The parts the loop works with, each named by what it must do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agentcli.errors import LLMError
from agentcli.events import Action, Event, Observation, Progress, Risk
from agentcli.events.actions import CondensationAction, MessageAction
from agentcli.events.observations import (
    CheckpointObservation,
    DecisionObservation,
    PrefixChangedObservation,
)
from agentcli.interrupts import Countdown
from agentcli.messages import Message, Reply, Request, ToolCall, ToolSchema
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState, State

LIMIT_EXIT_CODE = 6


class LLM(Protocol):
    def begin_turn(self) -> None:
        """Forget what went wrong in the turn before."""

    def complete(
        self,
        request: Request,
        notify: Callable[[Progress], None],
        record: Callable[[Event], Event],
    ) -> Reply:
        """A complete reply; a change of model on the way is recorded. Raises LLMError when there is
        none to be had."""


class Memory(Protocol):
    def window(self, events: Sequence[Event]) -> list[Message]: ...
    def condense(
        self, events: Sequence[Event], permit: Callable[[], bool]
    ) -> CondensationAction | None:
        """What to take out of sight; `permit` is asked first, and before a model is paid."""

    def due(self, events: Sequence[Event]) -> bool:
        """Whether the window is to become shorter now."""

    def learn(self, prompt_tokens: int) -> None: ...
    def slide(self, events: Sequence[Event], target_tokens: float) -> CondensationAction | None: ...
    def tokens(self, events: Sequence[Event]) -> int: ...


class Toolbox(Protocol):
    def parse(self, call: ToolCall) -> Action: ...
    def runs_beside_others(self, action: Action) -> bool: ...
    def permit(self, path: str) -> None:
        """Let the next call write this real path, wherever the borders are."""

    def execute_all(
        self, actions: Sequence[Action], live_output: Callable[[int, str], None]
    ) -> Iterator[Observation]: ...


class Policy(Protocol):
    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        """Whether `action` may run, given what the user allowed for the rest of the session."""

    def grant_for(self, action: Action) -> str:
        """The rule that would let this and its like run unasked; empty when none safely can."""


class Approval(Protocol):
    """What a person answered; `scope` is once, session or always."""

    @property
    def allowed(self) -> bool: ...
    @property
    def scope(self) -> Literal["once", "session", "always"]: ...
    @property
    def reason(self) -> str: ...


class Approver(Protocol):
    def ask(self, action: Action, reason: str, *, risk: Risk) -> Approval: ...


class Checkpointer(Protocol):
    """Keeps the workspace as it was; `alive` is called while that takes long."""

    def before(
        self, actions: Sequence[Action], step: int, alive: Callable[[], None]
    ) -> CheckpointObservation | None: ...
    def at_turn_end(self, alive: Callable[[], None]) -> CheckpointObservation | None: ...


class GitWatch(Protocol):
    """Keeps commands from having git run something later."""

    def end_turn(self) -> None: ...
    def observations(self) -> Sequence[Observation]:
        """What it has put right since it was last asked."""


class Limits(Protocol):
    @property
    def summary_tokens(self) -> int:
        """Of the last reply that sums up at a limit; 0: there is to be none."""

    def room_for_summary(self, state: State, countdown: Countdown | None) -> bool: ...
    def countdown(self) -> Countdown | None:
        """The time that a run has, from now on."""

    def reserve_s(self) -> float:
        """Of that time, what is kept for the summary."""

    def reached(self, state: State, countdown: Countdown | None) -> Ending | None: ...
    def left_usd(self, state: State) -> float | None: ...
    def failed(self, error: LLMError, state: State) -> Ending: ...
    def out_of_time(self, state: State) -> Ending: ...


class PrefixCheck(Protocol):
    """Notices when a request does not begin with the one before it."""

    def change(
        self, request: Request, events: Sequence[Event]
    ) -> PrefixChangedObservation | None: ...


class Hooks(Protocol):
    """Programs of the user that are run at certain moments; see docs/hooks.md. Each may tell the
    model something, by recording a message of the environment."""

    def before(self, session: Session, action: Action) -> str:
        """Why `action` must not run, recorded as a decision; empty when it may."""

    def submitting(self, session: Session, text: str) -> str:
        """Why a message of the person is not taken; empty when it is."""

    def after(self, session: Session, action: Action, observation: Observation) -> None:
        """`observation` was recorded."""

    def stopping(self, session: Session, ending: Ending) -> bool:
        """Whether the turn goes on instead of ending so; then the model was told why."""

    def compacting(self, session: Session, reason: str) -> str:
        """Why the conversation is not to be condensed now, which is for `reason`; empty when it may
        be. Not asked when it must be."""


@dataclass(frozen=True)
class Ending:
    """How a turn ends: the state it leaves, a stable word for the reason, what to say, and what
    the person can do next."""

    agent_state: AgentState
    reason: str
    content: str = ""
    exit_code: int = 0
    hint: str = ""

    @property
    def at_limit(self) -> bool:
        return self.exit_code == LIMIT_EXIT_CODE

    @property
    def is_over(self) -> bool:
        """Whether the agent came to the end of its work, so that its last words are its answer."""
        return self.agent_state in (AgentState.FINISHED, AgentState.AWAITING_USER_INPUT)


@dataclass(frozen=True)
class TurnResult:
    """The outcome of a turn. `answer` is what the agent last said to the person: its result, or at
    a limit its summary; empty when it was stopped in the middle of its work."""

    ending: Ending
    answer: str

    @property
    def exit_code(self) -> int:
        return self.ending.exit_code


@dataclass(frozen=True)
class Agent:
    """Everything a turn needs. Without an approver, what should be asked is denied; without a
    checkpointer nothing can be undone; without `git` nothing contains commands."""

    llm: LLM
    memory: Memory
    tools: Toolbox
    schemas: tuple[ToolSchema, ...]
    policy: Policy
    limits: Limits
    prefix: PrefixCheck
    approver: Approver | None = None
    checkpointer: Checkpointer | None = None
    git: GitWatch | None = None
    hooks: Hooks | None = None
    recall: Callable[[Session], None] = lambda session: None
    """Records what the newest messages of the person bring up."""
    last_notes: Callable[[Sequence[Event]], MessageAction | None] = lambda events: None
    """What the model is told before the conversation is condensed, if it is to be told."""
    save_rule: Callable[[str], None] = lambda rule: None
    """Keeps a rule beyond this session."""
    max_output_tokens: int = 16_384
    effort: str | None = None
    temperature: float | None = None
    interactive: bool = False
    """A plain text reply hands over to the person instead of finishing the task."""
