"""The tools that concern the task itself: ask, delegate, finish, think, todo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict

from agentcli.errors import ToolError
from agentcli.events.actions import (
    AgentDelegateAction,
    AgentFinishAction,
    AgentThinkAction,
    AskUserAction,
    TaskTrackingAction,
)
from agentcli.events.observations import (
    AgentThinkObservation,
    DelegateObservation,
    SuccessObservation,
    TaskTrackingObservation,
    UserAnswerObservation,
)
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult

MOST_OPTIONS = 9
"""Each option is chosen by a digit."""


def _few(options: list[str]) -> list[str]:
    if len(options) > MOST_OPTIONS:
        raise ValueError(f"at most {MOST_OPTIONS} options can be chosen from")
    return options


class AskArguments(ToolArguments):
    """Ask the user what only they can decide; they choose an option or write."""

    question: str
    options: Annotated[list[str], AfterValidator(_few)] = []


def _ask(args: AskArguments, ctx: ToolContext) -> ToolResult:
    if ctx.ask_user is None:
        return ToolResult(
            "Nobody can be asked: decide by yourself, and say at the end what you assumed."
        )
    answer = ctx.ask_user(args.question, args.options)
    if answer is None:
        return ToolResult(
            "The user did not answer: go by what they say next, if they say anything."
        )
    return ToolResult(f"The user answered: {answer}", data={"answer": answer})


ASK = Tool(
    "ask",
    AskArguments,
    Effect.READ,
    _ask,
    AskUserAction,
    UserAnswerObservation,
    switch="tools.enable_ask",
    parallel=False,
)


class DelegateArguments(ToolArguments):
    """Give a child agent a task: it knows only that, you get its report. Explorers in one reply run
    at once. Agents:"""

    agent: str
    task: str
    session: str = ""


def _delegate(args: DelegateArguments, ctx: ToolContext) -> ToolResult:
    """Refuse: where delegation is possible, `agent.execute` has children carry out the task."""
    raise ToolError("Nothing can be delegated from here: do it yourself.")


DELEGATE = Tool(
    name="delegate",
    arguments=DelegateArguments,
    effect=Effect.READ,
    switch="tools.enable_delegate",
    run=_delegate,
    to_action=lambda task, **given: AgentDelegateAction(inputs={"task": task}, **given),
    to_observation=DelegateObservation,
    parallel=False,
)


class FinishArguments(ToolArguments):
    """End the task. Use for failures; a reply of text alone ends it as a success."""

    status: Literal["success", "failure"]
    answer: str


def _finish(args: FinishArguments, ctx: ToolContext) -> ToolResult:
    return ToolResult("The task is over.")


FINISH = Tool(
    name="finish",
    arguments=FinishArguments,
    effect=Effect.READ,
    switch="tools.enable_finish",
    run=_finish,
    to_action=lambda status, answer: AgentFinishAction(status=status, final_thought=answer),
    to_observation=SuccessObservation,
)


class ThinkArguments(ToolArguments):
    """Write down a thought; nothing is done."""

    thought: str


def _think(args: ThinkArguments, ctx: ToolContext) -> ToolResult:
    return ToolResult("Noted.")


THINK = Tool(
    name="think",
    arguments=ThinkArguments,
    effect=Effect.READ,
    switch="tools.enable_think",
    run=_think,
    to_action=AgentThinkAction,
    to_observation=AgentThinkObservation,
)


class Task(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    title: str
    status: Literal["todo", "in_progress", "done", "cancelled"] = "todo"
    notes: str = ""


class TodoArguments(ToolArguments):
    """Task list for work of several parts; always send all of it."""

    tasks: list[Task]


def _todo(args: TodoArguments, ctx: ToolContext) -> ToolResult:
    open_tasks = [task for task in args.tasks if task.status in ("todo", "in_progress")]
    count = len(args.tasks)
    told = f"{count} task{'s' * (count != 1)}, {len(open_tasks)} open"
    return ToolResult(told, data=_plan(args.tasks))


def _plan(tasks: Sequence[Task]) -> dict[str, Any]:
    numbered = enumerate(tasks, 1)
    items = tuple({"id": str(number), **task.model_dump()} for number, task in numbered)
    return {"command": "plan", "task_list": items}


TODO = Tool(
    name="todo",
    arguments=TodoArguments,
    effect=Effect.READ,
    switch="tools.enable_plan",
    run=_todo,
    to_action=lambda tasks: TaskTrackingAction(**_plan(tasks)),
    to_observation=TaskTrackingObservation,
)

TOOL = (ASK, DELEGATE, FINISH, THINK, TODO)
