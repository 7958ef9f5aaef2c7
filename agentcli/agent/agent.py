"""What the loop works with. Parts of packages above this one are described by what they must do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from agentcli.agent.ending import Ending
from agentcli.agent.run_limits import Limits
from agentcli.events import Action, Event, Observation, Progress, Risk
from agentcli.events.actions import AgentDelegateAction, MessageAction
from agentcli.events.observations import CheckpointObservation, DecisionObservation
from agentcli.memory.memory import Memory
from agentcli.memory.prefix import PrefixCheck
from agentcli.messages import Reply, Request, ToolCall, ToolSchema
from agentcli.sessions.session import Session


class LLM(Protocol):
    def begin_turn(self) -> None:
        """Ask the preferred model first again."""

    def complete(
        self,
        request: Request,
        notify: Callable[[Progress], None],
        record: Callable[[Event], Event],
    ) -> Reply:
        """A complete reply; a change of model on the way is recorded. Raises LLMError when there is
        none to be had."""


class Toolbox(Protocol):
    def has(self, name: str) -> bool: ...
    def parse(self, call: ToolCall) -> Action: ...
    def runs_beside_others(self, action: Action) -> bool: ...
    def permit(self, path: str) -> None:
        """Let the next call write this real path, outside its access scope or not."""

    def execute_all(
        self, actions: Sequence[Action], live_output: Callable[[int, str], None]
    ) -> Iterator[Observation]: ...


class Policy(Protocol):
    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        """Whether `action` may run, given what the user allowed for the rest of the session."""


class Approval(Protocol):
    """What a person answered; `scope` is once, session or always, `rule` what holds so long."""

    @property
    def allowed(self) -> bool: ...
    @property
    def scope(self) -> Literal["once", "session", "always"]: ...
    @property
    def reason(self) -> str: ...
    @property
    def rule(self) -> str: ...


class Approver(Protocol):
    def ask(self, action: Action, reason: str, *, risk: Risk) -> Approval: ...
    def answer(self, question: str, options: Sequence[str]) -> str | None:
        """What the person says to a question; None: nothing."""


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


class Children(Protocol):
    """Sessions that carry out what this one delegates; see docs/delegation.md."""

    def runs_beside_others(self, action: AgentDelegateAction) -> bool:
        """Whether the child only reads, so that several may be at work at once."""

    def carry_out(self, actions: Sequence[AgentDelegateAction]) -> Iterator[Observation]:
        """Have a child work on each, or go on with it where it stopped, and report in this order.
        Raises TurnInterrupted, or LLMError when the money is spent: what has not been reported
        then is gone on with when it is carried out again."""

    def give_up(self) -> None:
        """Answer what is delegated and was not finished by what there is of it."""


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
        """Why a hook forbids condensing the conversation now; empty if none does. `reason`: why it
        would be condensed. Not called when condensing is unavoidable."""


class Requirements(Protocol):
    """What the work must come to before it counts as done; see docs/records.md."""

    def apply(self, session: Session, ending: Ending) -> bool:
        """Whether there are any for a turn that ends so."""

    def judge(self, session: Session, ending: Ending) -> Ending | None:
        """How the turn ends; None when it goes on, as the model was told what is missing. Raises
        TurnInterrupted."""

    def answer(self, session: Session, ending: Ending, words: str) -> str:
        """What the person is given of the last `words` of the agent."""


@dataclass(frozen=True)
class Agent:
    """Everything a turn needs. Without an approver, whatever would be asked is denied; without a
    checkpointer nothing can be undone; without `git` commands are not contained."""

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
    requirements: Requirements | None = None
    children: Children | None = None
    """None: nothing can be delegated."""
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
