"""think: room to reason, for models without reasoning of their own."""

from __future__ import annotations

from agentcli.events.actions import AgentThinkAction
from agentcli.events.observations import AgentThinkObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult


class Arguments(ToolArguments):
    """Write down a thought; nothing is done."""

    thought: str


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    return ToolResult("Noted.")


TOOL = Tool(
    name="think",
    arguments=Arguments,
    effect=Effect.READ,
    switch="tools.enable_think",
    run=run,
    to_action=AgentThinkAction,
    to_observation=AgentThinkObservation,
)
