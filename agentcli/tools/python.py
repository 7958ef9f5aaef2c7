"""python: run code in one persistent interpreter per session, the workspace's own."""

from __future__ import annotations

from agentcli.errors import TurnInterrupted
from agentcli.events.actions import IPythonRunCellAction
from agentcli.events.observations import IPythonRunCellObservation
from agentcli.sandbox.hints import refused_by_sandbox
from agentcli.shell.python import CellResult
from agentcli.tools.base import (
    Effect,
    Seconds,
    Tool,
    ToolArguments,
    ToolContext,
    ToolResult,
    with_notes,
)


class Arguments(ToolArguments):
    """Run code in a persistent Python, of the workspace's virtual environment if it has one. Shows
    what is printed, the last expression's value, matplotlib figures."""

    code: str
    timeout: Seconds = 120


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    python = ctx.python
    try:
        result = python.run(args.code, timeout=args.timeout, on_output=ctx.live_output)
    except TurnInterrupted as interrupt:
        if python.last_result is not None:
            ctx.partial = _tool_result(args.code, python.last_result, interrupt.model_message)
        raise
    failed = int(result.error and not result.timed_out)
    hint = refused_by_sandbox(result.output, failed, ctx.sandbox, from_python=True)
    return _tool_result(args.code, result, hint)


def _tool_result(code: str, result: CellResult, ending: str) -> ToolResult:
    text = with_notes(result.output, *result.notes, ending) or "[no output]"
    return ToolResult(text, images=result.images, data={"error": result.error, "code": code})


TOOL = Tool(
    name="python",
    arguments=Arguments,
    effect=Effect.EXECUTE,
    switch="tools.enable_jupyter",
    run=run,
    to_action=IPythonRunCellAction,
    to_observation=IPythonRunCellObservation,
)
