"""An agent of plain parts: a model that says what it was given, tools that note what they ran."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentcli.agent.agent import Agent
from agentcli.agent.ending import Limits
from agentcli.errors import LLMError
from agentcli.events import Action, Observation, ToolCallMetadata
from agentcli.events.actions import ToolCallAction
from agentcli.events.observations import DecisionObservation, SuccessObservation
from agentcli.memory.memory import Memory
from agentcli.memory.projection import PrefixCheck
from agentcli.memory.window import Window
from agentcli.messages import FinishReason, Reply, Request, ToolCall, Usage
from agentcli.settings import AgentSettings

_numbers = itertools.count(1)


def says(text: str = "", *calls: str) -> Reply:
    """A reply with a call of the tool `work` for each of `calls`."""
    asked = tuple(ToolCall(f"c{next(_numbers)}", "work", f'{{"on": "{on}"}}') for on in calls)
    ended = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
    return Reply(text, asked, ended, Usage(), "m", "r")


@dataclass
class Model:
    """Gives its replies in order; an error among them is raised."""

    replies: list[Reply | LLMError]
    requests: list[Request] = field(default_factory=list)

    def begin_turn(self) -> None: ...

    def complete(self, request: Request, notify: Any, record: Any) -> Reply:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, LLMError):
            raise reply
        return reply


@dataclass
class Tools:
    """Each call is one of the tool `work`; `during` is called while it runs."""

    during: Callable[[Action], None] = lambda action: None
    began: list[Action] = field(default_factory=list)
    together: bool = False

    def parse(self, call: ToolCall) -> Action:
        metadata = ToolCallMetadata(
            function_name=call.name, tool_call_id=call.id, raw_arguments=call.arguments
        )
        return ToolCallAction(
            name=call.name, raw_arguments=call.arguments, tool_call_metadata=metadata
        )

    def effect(self, action: Action) -> str:
        return "read"

    def runs_beside_others(self, action: Action) -> bool:
        return self.together

    def permit(self, *paths: Any) -> None: ...

    def execute_all(
        self, actions: Sequence[Action], live_output: Callable[[int, str], None]
    ) -> Iterator[Observation]:
        for action in actions:
            self.began.append(action)
            self.during(action)
            yield SuccessObservation(cause=action.id, content=f"done {action.id}")


class AllowAll:
    decision = "allow"

    def decide(self, action: Action, grants: Sequence[str]) -> DecisionObservation:
        return DecisionObservation(
            cause=action.id, decision=self.decision, by="policy", reason="so it is"
        )


class AskAlways(AllowAll):
    decision = "ask"


def limits_of(max_budget_usd: float | None = None, **settings: Any) -> Limits:
    return Limits(AgentSettings(**settings), max_budget_usd)


def agent_of(*replies: Reply | LLMError, **parts: Any) -> Agent:
    """With the usual parts, unless others are given."""
    standard: dict[str, Any] = {
        "llm": Model(list(replies)),
        "memory": Memory(Window(lambda: 100_000)),
        "tools": Tools(),
        "schemas": (),
        "policy": AllowAll(),
        "limits": limits_of(),
        "prefix": PrefixCheck(),
    }
    return Agent(**{**standard, **parts})
