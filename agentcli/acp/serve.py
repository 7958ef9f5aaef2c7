"""Serves one editor on stdin and stdout, until that is gone or the process is told to end."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress

from acp import AgentSideConnection

from agentcli.acp.server import EditorAgent
from agentcli.acp.session import Basis
from agentcli.acp.transport import StdioTransport
from agentcli.errors import TurnInterrupted

_EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 143}


def serve(basis: Basis) -> int:
    """The exit code: 0 when the editor has closed its end."""
    return asyncio.run(_serve(basis))


async def _serve(basis: Basis) -> int:
    transport = StdioTransport()
    agent = EditorAgent(basis)
    connection = AgentSideConnection(agent, transport, listening=False, use_unstable_protocol=True)
    told = _told_to_end()
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


def _told_to_end() -> asyncio.Future[int]:
    """The exit code, once a signal asks for the end; a second one ends the process at once: what is
    on disk is whole."""
    loop = asyncio.get_running_loop()
    told: asyncio.Future[int] = loop.create_future()

    def tell(code: int) -> None:
        if told.done():
            os._exit(code)
        told.set_result(code)

    for number, code in _EXIT_CODES.items():
        loop.add_signal_handler(number, tell, code)
    return told
