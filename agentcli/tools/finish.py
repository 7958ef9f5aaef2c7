"""finish: the agent declares the task over, and says how it went."""

from __future__ import annotations

from typing import Literal

from agentcli.events.actions import AgentFinishAction
from agentcli.events.observations import SuccessObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult


class Arguments(ToolArguments):
    """End the task. Use for failures; a reply of text alone ends it as a success."""

    status: Literal["success", "failure"]
    answer: str


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    return ToolResult("The task is over.")


TOOL = Tool(
    name="finish",
    arguments=Arguments,
    effect=Effect.READ,
    switch="tools.enable_finish",
    run=run,
    to_action=lambda status, answer: AgentFinishAction(status=status, final_thought=answer),
    to_observation=SuccessObservation,
)
