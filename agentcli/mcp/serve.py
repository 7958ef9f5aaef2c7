"""The agent as a tool server for other programs, using the SDK's server on stdin and stdout.

Each task runs in an `agent` process of its own, as if the user had started it, so that it can be
interrupted and the user can look at its session.
"""

from __future__ import annotations

import asyncio
import json
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

from agentcli import __version__

_LONGEST_LINE = 64_000_000
_END_S = 10.0
_INSTRUCTIONS = (
    "A coding assistant. run gives it a task in a folder and returns its answer; resume says more "
    "in a session that it had; sessions_search finds earlier ones."
)


def serve(program: Sequence[str], environ: dict[str, str], search: Callable[[str], str]) -> None:
    """Serve until stdin ends. `program` is the agent's command line; `search` finds sessions."""
    server = MCPServer("agent", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")

    @server.tool()
    async def run(task: str, folder: str, context: Context) -> str:
        """Have the coding assistant do a task in a folder (absolute), and return its answer. What
        would need a user's approval is not done."""
        return await _worked([*program, "run", "--json", "--no-stdin", "-C", folder, "--", task])

    @server.tool()
    async def resume(session: str, message: str) -> str:
        """Say more in an earlier session, by its id, and return the answer."""
        return await _worked([*program, "resume", "--json", session, "--", message])

    @server.tool()
    def sessions_search(query: str) -> str:
        """Find earlier sessions by words that were said, run or printed in them."""
        return search(query)

    async def _worked(command: Sequence[str]) -> str:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=PIPE, stderr=PIPE, env=environ, limit=_LONGEST_LINE
        )
        try:
            return await _answer(process)
        finally:
            await _end(process)

    server.run()


async def _answer(process: Process) -> str:
    """Return the agent's answer. Raises RuntimeError, which is reported to the client, if the task
    failed."""
    assert process.stdout is not None
    assert process.stderr is not None
    errors = asyncio.create_task(process.stderr.read())
    result: dict[str, Any] = {}
    async for line in process.stdout:
        with suppress(ValueError):
            event = json.loads(line)
            if event.get("type") == "result":
                result = event
    code = await process.wait()
    told = (await errors).decode("utf-8", "replace").strip()
    if not result:
        raise RuntimeError(told or f"the agent ended with {code}")
    session = f"[session {result.get('session_id')}, {result.get('status')}]"
    text = f"{result.get('answer') or ''}\n\n{session}".strip()
    if code:
        why = (result.get("error") or {}).get("message", "")
        raise RuntimeError("\n".join(filter(None, (why, text))))
    return text


async def _end(process: Process) -> None:
    """End the process as ^C would, so that its work is recorded and its session can go on."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        await asyncio.wait_for(asyncio.shield(process.wait()), _END_S)
    except TimeoutError:
        process.kill()
