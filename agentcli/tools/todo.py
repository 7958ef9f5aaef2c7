"""todo: keep the plan of a longer task where the user sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

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


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    open_tasks = [task for task in args.tasks if task.status in ("todo", "in_progress")]
    count = len(args.tasks)
    told = f"{count} task{'s' * (count != 1)}, {len(open_tasks)} open"
    return ToolResult(told, data=_plan(args.tasks))


def _plan(tasks: Sequence[Task]) -> dict[str, Any]:
    numbered = enumerate(tasks, 1)
    items = tuple({"id": str(number), **task.model_dump()} for number, task in numbered)
    return {"command": "plan", "task_list": items}


TOOL = Tool(
    name="todo",
    arguments=Arguments,
    effect=Effect.READ,
    switch="tools.enable_plan",
    run=run,
    to_action=lambda tasks: TaskTrackingAction(**_plan(tasks)),
    to_observation=TaskTrackingObservation,
)
