"""delegate: give a task to another agent, which works on it in its own session."""

from __future__ import annotations

from agentcli.errors import ToolError
from agentcli.events.actions import AgentDelegateAction
from agentcli.events.observations import DelegateObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult


class Arguments(ToolArguments):
    """Give a child agent a task: it knows only that, you get its report. Explorers in one reply run
    at once. Agents:"""

    agent: str
    task: str
    session: str = ""


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    """Refuse: where delegation is possible, `agent.execute` has children carry out the task."""
    raise ToolError("Nothing can be delegated from here: do it yourself.")


TOOL = Tool(
    name="delegate",
    arguments=Arguments,
    effect=Effect.READ,
    switch="tools.enable_delegate",
    run=run,
    to_action=lambda task, **given: AgentDelegateAction(inputs={"task": task}, **given),
    to_observation=DelegateObservation,
    parallel=False,
)
