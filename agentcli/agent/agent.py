"""What the loop works with. Parts from packages that this one doesn't import appear as
protocols."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from agentcli.agent.ending import Ending, Limits
from agentcli.events import Action, Event, Observation, Progress, Risk
from agentcli.events.actions import AgentDelegateAction, MessageAction
from agentcli.events.observations import CheckpointObservation, DecisionObservation
from agentcli.events.progress import Approval
from agentcli.memory.memory import Memory
from agentcli.memory.projection import PrefixCheck
from agentcli.messages import Reply, Request, ToolCall, ToolSchema
from agentcli.sessions.session import SessionLog


class LLM(Protocol):
    def begin_turn(self) -> None:
        """Return to asking the preferred model first."""

    def complete(
        self,
        request: Request,
        notify: Callable[[Progress], None],
        record: Callable[[Event], Event],
    ) -> Reply:
        """Return a complete reply; record any change of model on the way. Raises LLMError if no
        model gives one."""


class Tools(Protocol):
    def has(self, name: str) -> bool: ...
    def effect(self, action: Action) -> str:
        """Return what the action can do at most: read, write, execute or network."""

    def parse(self, call: ToolCall) -> Action: ...
    def runs_beside_others(self, action: Action) -> bool: ...
    def permit(self, path: str) -> None:
        """Let the next call write to this real path, even if it is outside the access scope."""

    def execute_all(
        self, actions: Sequence[Action], live_output: Callable[[int, str], None]
    ) -> Iterator[Observation]: ...


class Policy(Protocol):
    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        """Decide whether `action` may run, given what the user allowed for this session."""


class Approver(Protocol):
    def ask(self, action: Action, reason: str, *, risk: Risk) -> Approval: ...
    def answer(self, question: str, options: Sequence[str]) -> str | None:
        """Return the user's answer to a question; None if there is none."""


class Checkpointer(Protocol):
    """Keeps snapshots of the workspace; `alive` is called from time to time if that takes long."""

    def before(
        self, actions: Sequence[Action], step: int, alive: Callable[[], None]
    ) -> CheckpointObservation | None: ...
    def at_turn_end(self, alive: Callable[[], None]) -> CheckpointObservation | None: ...


class GitWatch(Protocol):
    """Keeps commands from planting something that git would run later."""

    def end_turn(self) -> None: ...
    def observations(self) -> Sequence[Observation]:
        """Return what has been put right since the last call."""


class Children(Protocol):
    """Sessions that carry out what this one delegates; see docs/delegation.md."""

    def runs_beside_others(self, action: AgentDelegateAction) -> bool:
        """Whether the child only reads, so that several may work at the same time."""

    def carry_out(self, actions: Sequence[AgentDelegateAction]) -> Iterator[Observation]:
        """Have a child work on each action, or continue where it stopped, and report in this order.
        Raises TurnInterrupted, or LLMError when the money is spent; what has not been reported by
        then continues the next time it is carried out."""

    def give_up(self) -> None:
        """Answer unfinished delegations with what they have so far."""


class Hooks(Protocol):
    """Programs of the user that run at certain moments; see docs/hooks.md. Each may tell the model
    something, by recording a message of the environment."""

    def before(self, session: SessionLog, action: Action) -> str:
        """Return why `action` must not run, after recording that as a decision; empty if it may."""

    def submitting(self, session: SessionLog, text: str) -> str:
        """Return why a message of the user is not accepted; empty if it is."""

    def after(self, session: SessionLog, action: Action, observation: Observation) -> None:
        """Run the hooks for the action that `observation` answers, once that is recorded."""

    def stopping(self, session: SessionLog, ending: Ending) -> bool:
        """Whether the turn goes on instead of ending like this; if so, the model was told why."""

    def compacting(self, session: SessionLog, reason: str) -> str:
        """Return why a hook forbids condensing the conversation now; empty if none does. `reason`
        is why it would be condensed. Not called if condensing is unavoidable."""


class Requirements(Protocol):
    """What must hold before the work counts as done; see docs/records.md."""

    def apply(self, session: SessionLog, ending: Ending) -> bool:
        """Whether there are any for a turn that ends like this."""

    def judge(self, session: SessionLog, ending: Ending) -> Ending | None:
        """Return how the turn ends; None if it goes on, after telling the model what is missing.
        Raises TurnInterrupted."""

    def answer(self, session: SessionLog, ending: Ending, words: str) -> str:
        """Return what the user gets for the last `words` of the agent."""


@dataclass(frozen=True)
class Agent:
    """Everything a turn needs. Without an approver, what would need approval is denied; without a
    checkpointer, nothing can be undone; `git` is None if commands are not contained."""

    llm: LLM
    memory: Memory
    tools: Tools
    schemas: tuple[ToolSchema, ...]
    policy: Policy
    limits: Limits
    prefix: PrefixCheck
    approver: Approver | None = None
    checkpointer: Checkpointer | None = None
    git: GitWatch | None = None
    hooks: Hooks | None = None
    requirements: Requirements | None = None
    children: Callable[[], Children] | None = None
    """Loads the children; None if nothing can be delegated."""
    inform: Callable[[SessionLog], None] = lambda session: None
    """Records the knowledge that the newest messages of the user call for."""
    last_notes: Callable[[Sequence[Event]], MessageAction | None] = lambda events: None
    """Returns what to tell the model before the conversation is condensed, if anything."""
    situation: Callable[..., str] = lambda **how: ""
    """Returns where the session is now, to be told once older work was condensed."""
    save_rule: Callable[[str], None] = lambda rule: None
    """Saves a rule beyond this session."""
    max_output_tokens: int = 16_384
    effort: str | None = None
    temperature: float | None = None
    interactive: bool = False
    """Whether a plain text reply hands over to the user instead of finishing the task."""
