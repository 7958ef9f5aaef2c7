"""The agent as a tool server for other programs, using the SDK's server on stdin and stdout.

Each call works on a thread of its own, in a session, as those of editors do. What a client says is
data from one end to the other, so it can't become a flag of a command line.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from anyio import CancelScope
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from agentcli import __version__, interrupts
from agentcli.errors import AgentError, TurnInterrupted

_END_S = 10.0
_INSTRUCTIONS = (
    "A coding assistant. run gives it a task in a folder and returns its answer; resume says more "
    "in a session that it had; sessions_search finds earlier ones."
)


def serve(
    begin: Callable[[str, str], str],
    go_on: Callable[[str, str], str],
    search: Callable[[str], str],
) -> None:
    """Serve until stdin ends: `begin` does a task in a folder, `go_on` works in a session on a
    message, `search` finds sessions. They raise AgentError if they fail."""
    server = MCPServer("agent", version=__version__, instructions=_INSTRUCTIONS, log_level="ERROR")

    @server.tool()
    async def run(task: str, folder: str) -> str:
        """Have the coding assistant do a task in a folder (absolute), and return its answer. What
        would need a user's approval is not done."""
        if not Path(folder).is_absolute():
            raise ToolError(f"{folder!r} is no absolute path of a folder")
        return await _on_a_thread(lambda: begin(task, folder))

    @server.tool()
    async def resume(session: str, message: str) -> str:
        """Say more in an earlier session, by its id, and return the answer."""
        return await _on_a_thread(lambda: go_on(session, message))

    @server.tool()
    def sessions_search(query: str) -> str:
        """Find earlier sessions by words that were said, run or printed in them."""
        with _failures_with_text():
            return search(query)

    server.run()


async def _on_a_thread(call: Callable[[], str]) -> str:
    """Make the call; if it is cancelled, interrupt it as ^C would, so that the work is recorded and
    its session can go on."""
    done: Future[str] = Future()

    def make() -> None:
        with interrupts.stoppable_thread():
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    try:
        with _failures_with_text():
            return await asyncio.shield(asyncio.wrap_future(done))
    finally:
        if not done.done():
            interrupts.stop_thread(thread, TurnInterrupted("interrupted", 130))
            with CancelScope(shield=True):
                await asyncio.wait([asyncio.wrap_future(done)], timeout=_END_S)


@contextmanager
def _failures_with_text() -> Iterator[None]:
    """Raise AgentError as the error whose text the SDK passes on; that of others it withholds."""
    try:
        yield
    except AgentError as error:
        raise ToolError("\n".join(filter(None, (error.message, error.hint)))) from error
