"""todo: the plan of a longer task, kept where the person sees it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from agentcli.events.actions import TaskTrackingAction
from agentcli.events.observations import TaskTrackingObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult


class Task(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)

    title: str
    status: Literal["todo", "in_progress", "done", "cancelled"] = "todo"
    notes: str = ""


class Arguments(ToolArguments):
    """Task list for work of several parts; always send all of it."""

    tasks: list[Task]


def run(arguments: Arguments, context: ToolContext) -> ToolResult:
    open_tasks = [task for task in arguments.tasks if task.status in ("todo", "in_progress")]
    count = len(arguments.tasks)
    return ToolResult(f"{count} task{'s' * (count != 1)}, {len(open_tasks)} open")


def _items(arguments: Arguments) -> tuple[dict[str, str], ...]:
    return tuple(
        {"id": str(number), **task.model_dump()} for number, task in enumerate(arguments.tasks, 1)
    )


TOOL = Tool(
    name="todo",
    arguments=Arguments,
    effect=Effect.READ,
    switch="tools.enable_plan",
    run=run,
    to_action=lambda a: TaskTrackingAction(command="plan", task_list=_items(a)),
    to_observation=lambda a, result: TaskTrackingObservation(
        content=result.output, command="plan", task_list=_items(a)
    ),
)
