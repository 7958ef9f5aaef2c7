"""bash and python: run commands and code in one persistent shell and interpreter per session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from agentcli.errors import ToolError, TurnInterrupted
from agentcli.events.actions import CmdRunAction, IPythonRunCellAction
from agentcli.events.base import Risk
from agentcli.events.observations import (
    CmdMetadata,
    CmdOutputObservation,
    IPythonRunCellObservation,
)
from agentcli.sandbox.hints import refused_by_sandbox
from agentcli.shell.interpreter import CommandResult
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
from agentcli.workspace.names import output_name

if TYPE_CHECKING:
    from agentcli.sandbox.selection import Sandbox


class BashArguments(ToolArguments):
    """Run a command in the session's bash; folder, variables and functions persist. stdin is
    closed, stdout is a pipe, pagers and editors are off, PYTHONUNBUFFERED=1. Long output is cut in
    the middle; the whole is in a file in $AGENT_OUT, a name that all tools take. For servers and
    longer work set background: it returns a job id and a log."""

    command: str = Field(description="with job: status or stop")
    timeout: Seconds = 120
    background: bool = False
    job: str | None = None
    is_input: bool = Field(
        default=False,
        description="type command into the waiting program; if none waits, run it at a terminal",
    )
    restart: bool = False
    network: bool = False
    unsandboxed: bool = False
    reason: str = Field(default="", description="for network and unsandboxed")
    risk: Literal["low", "medium", "high"] | None = None

    @model_validator(mode="after")
    def _say_why(self) -> Self:
        if not (self.network or self.unsandboxed):
            return self
        if not self.reason.strip():
            raise ValueError("network and unsandboxed need a reason")
        if self.background or self.job is not None or self.is_input:
            raise ValueError("network and unsandboxed are for a command that runs to its end")
        return self


def _bash(args: BashArguments, ctx: ToolContext) -> ToolResult:
    shell, before = ctx.shell, ctx.shell.cwd
    if args.restart:
        shell.restart()
        before = ""
    try:
        result = _run(args, ctx)
    except TurnInterrupted as interrupt:
        if shell.last_result is not None:
            ctx.partial = _tool_result(args, shell.last_result, before, interrupt.model_message)
        raise
    except (ValueError, KeyError) as error:
        raise ToolError(str(error.args[0])) from error
    used = _wider(args, ctx.sandbox) or ctx.sandbox
    hint = refused_by_sandbox(result.output, result.exit_code, used, command=args.command)
    return _tool_result(args, result, before, hint)


def _run(args: BashArguments, ctx: ToolContext) -> CommandResult:
    shell, command = ctx.shell, args.command
    if args.job is not None:
        if command.strip() not in ("status", "stop"):
            raise ToolError("with job, command must be status or stop")
        job = args.job
        return shell.stop_job(job) if command.strip() == "stop" else shell.job_status(job)
    if args.background:
        return shell.run_in_background(command)
    live = ctx.live_output
    if (sandbox := _wider(args, ctx.sandbox)) is not None:
        return shell.run_wider(command, sandbox, timeout=args.timeout, on_output=live)
    waiting = shell.last_result is not None and shell.last_result.waiting_for_input
    if args.is_input and waiting:
        return shell.send_input(command, timeout=args.timeout, on_output=live)
    return shell.run(command, timeout=args.timeout, stdin=args.is_input, on_output=live)


def _wider(args: BashArguments, sandbox: Sandbox | None) -> Sandbox | None:
    """Return the sandbox for a command that needs more access than the shell's sandbox allows."""
    if sandbox is None or not (args.network or args.unsandboxed):
        return None
    wider = sandbox.wider(network=args.network, unsandboxed=args.unsandboxed)
    return None if wider == sandbox else wider


def _tool_result(
    args: BashArguments, result: CommandResult, before: str, ending: str
) -> ToolResult:
    """Return the output followed by the facts that it does not show itself."""
    facts = _job_facts(result) if result.job_id else _command_facts(result, before)
    text = with_notes(result.output, "; ".join(facts), result.folder_fault, *result.notes, ending)
    rounded = replace(result, duration_s=round(result.duration_s, 3))
    metadata = CmdMetadata.model_validate(rounded, from_attributes=True)
    data = {"command": args.command, "metadata": metadata}
    return ToolResult(text, data=data, is_whole=not result.truncated)


def _command_facts(result: CommandResult, before: str) -> list[str]:
    facts = []
    if result.waiting_for_input:
        facts.append("waits for input: answer with is_input; any other command stops it")
    elif result.exit_code and not result.timed_out:
        facts.append(f"exit {result.exit_code}")
    elif result.exit_code == 0 and not result.output.strip():
        facts.append("exit 0, no output")
    if result.cwd != before and not result.folder_fault:
        facts.append(f"now in {result.cwd}")
    return facts


def _job_facts(result: CommandResult) -> list[str]:
    ended = "runs" if result.exit_code is None else f"has ended, exit {result.exit_code}"
    ended = "has ended, exit code unknown" if result.exit_unknown else ended
    return [
        f"job {result.job_id} {ended}, {result.duration_s:.0f} s",
        f"log: {output_name(Path(result.full_output_path or '?'))}",
    ]


BASH = Tool(
    name="bash",
    arguments=BashArguments,
    effect=Effect.EXECUTE,
    switch="tools.enable_cmd",
    rules="command",
    run=_bash,
    to_action=lambda risk, **given: CmdRunAction(
        **given, security_risk=Risk[risk.upper()] if risk else Risk.UNKNOWN
    ),
    to_observation=CmdOutputObservation,
)


class PythonArguments(ToolArguments):
    """Run code in a persistent Python, of the workspace's virtual environment if it has one. Shows
    what is printed, the last expression's value, matplotlib figures."""

    code: str
    timeout: Seconds = 120


def _python(args: PythonArguments, ctx: ToolContext) -> ToolResult:
    python = ctx.python
    try:
        result = python.run(args.code, timeout=args.timeout, on_output=ctx.live_output)
    except TurnInterrupted as interrupt:
        if python.last_result is not None:
            ctx.partial = _python_tool_result(
                args.code, python.last_result, interrupt.model_message
            )
        raise
    failed = int(result.error and not result.timed_out)
    hint = refused_by_sandbox(result.output, failed, ctx.sandbox, from_python=True)
    return _python_tool_result(args.code, result, hint)


def _python_tool_result(code: str, result: CellResult, ending: str) -> ToolResult:
    text = with_notes(result.output, *result.notes, ending) or "[no output]"
    data = {"error": result.error, "code": code}
    return ToolResult(text, images=result.images, data=data, is_whole=not result.truncated)


PYTHON = Tool(
    name="python",
    arguments=PythonArguments,
    effect=Effect.EXECUTE,
    switch="tools.enable_jupyter",
    run=_python,
    to_action=IPythonRunCellAction,
    to_observation=IPythonRunCellObservation,
)

TOOL = (BASH, PYTHON)
