"""Serves one editor on stdin and stdout until it is gone or the process is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from acp import AgentSideConnection

from agentcli.acp.server import EditorAgent
from agentcli.acp.session import SessionDefaults
from agentcli.acp.transport import StdioTransport
from agentcli.errors import TurnInterrupted

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}


def serve(defaults: SessionDefaults) -> int:
    """Serve, and return the exit code: 0 if the editor has closed its end."""
    return asyncio.run(_serve(defaults))


async def _serve(defaults: SessionDefaults) -> int:
    transport = StdioTransport()
    agent = EditorAgent(defaults)
    connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
    told = _end_signal()
    ends = [asyncio.ensure_future(each) for each in (connection.listen(), transport.closed.wait())]
    await asyncio.wait([*ends, told], return_when=asyncio.FIRST_COMPLETED)
    code = told.result() if told.done() else 0
    if code:
        reason = TurnInterrupted("interrupted" if code == 130 else "terminated", code)
    else:
        reason = TurnInterrupted("the editor is gone", 141)
    await agent.close_all(reason)
    for end in ends:
        end.cancel()
    with suppress(ConnectionError):
        await connection.close()
    return code


def _end_signal() -> asyncio.Future[int]:
    """Return a future that gets the exit code once a signal asks for the end. A second signal ends
    the process at once; what is on disk is whole."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[int] = loop.create_future()

    def tell(code: int) -> None:
        if told.done():
            os._exit(code)
        told.set_result(code)

    for number, code in _EXIT_CODES.items():
        loop.add_signal_handler(number, tell, code)
    return told
