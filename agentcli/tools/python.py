"""python: one persistent interpreter a session, the workspace's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from agentcli.errors import TurnInterrupted
from agentcli.events.actions import IPythonRunCellAction
from agentcli.events.observations import IPythonRunCellObservation
from agentcli.sandbox.hints import refused_by_sandbox
from agentcli.shell.python import CellResult
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult, seconds

if TYPE_CHECKING:
    from agentcli.sandbox.choosing import Sandbox


class Arguments(ToolArguments):
    """Run code in a persistent Python, of the workspace's virtual environment if it has one. Shows
    what is printed, the last expression's value, matplotlib figures."""

    code: str
    timeout: Annotated[float, AfterValidator(seconds)] = Field(default=120)


def run(arguments: Arguments, context: ToolContext) -> ToolResult:
    python = context.python
    try:
        result = python.run(
            arguments.code, timeout=arguments.timeout, on_output=context.live_output
        )
    except TurnInterrupted as interrupt:
        if python.last_result is not None:
            context.partial = _told(python.last_result, f"[{interrupt.told}]")
        raise
    return _told(result, _hint(result, context.sandbox))


def _hint(result: CellResult, sandbox: Sandbox | None) -> str:
    failed = int(result.error and not result.timed_out)
    hint = refused_by_sandbox(result.output, failed, sandbox, from_python=True)
    return f"[{hint}]" if hint else ""


def _told(result: CellResult, ending: str = "") -> ToolResult:
    lines = [f"[{note}]" for note in result.notes] + ([ending] if ending else [])
    output = result.output.rstrip("\n")
    text = "\n".join([output, *lines] if output else lines) or "[no output]"
    return ToolResult(text, images=result.images, data={"error": result.error})


TOOL = Tool(
    name="python",
    arguments=Arguments,
    effect=Effect.EXECUTE,
    switch="tools.enable_jupyter",
    run=run,
    to_action=lambda a: IPythonRunCellAction(code=a.code, timeout=a.timeout),
    to_observation=lambda a, result: IPythonRunCellObservation(
        content=result.output, code=a.code, image_urls=result.images, error=result.data["error"]
    ),
)
