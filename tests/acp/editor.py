"""An editor for tests: the SDK's own client, over the real `agent acp`."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from subprocess import PIPE, Popen
from typing import Any

import acp
from acp.schema import (
    AllowedOutcome,
    ClientCapabilities,
    DeniedOutcome,
    Implementation,
    InitializeResponse,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)

from tests.conftest import LIMIT_S, Agent

LONGEST_LINE = 50_000_000
Answer = Callable[[ToolCallUpdate, Sequence[PermissionOption]], str | None]


@dataclass
class Editor(acp.Client):
    """Keeps what it is told, by session. `answer` returns the id of the option that the person
    chooses, or None if they cancel."""

    answer: Answer = lambda call, options: "allow-once"
    told: dict[str, list[Any]] = field(default_factory=dict)
    asked: list[tuple[ToolCallUpdate, list[PermissionOption]]] = field(default_factory=list)
    connection: acp.Agent | None = None
    process: Popen[bytes] | None = None
    initialized: InitializeResponse | None = None
    heard: asyncio.Event = field(default_factory=asyncio.Event)
    ends_with: tuple[int, ...] = (0, -signal.SIGKILL)

    async def session_update(self, session_id: str, update: Any, **meta: Any) -> None:
        self.told.setdefault(session_id, []).append(update)
        self.heard.set()

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **meta: Any,
    ) -> RequestPermissionResponse:
        self.asked.append((tool_call, options))
        chosen = self.answer(tool_call, options)
        if chosen is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        outcome = AllowedOutcome(outcome="selected", option_id=chosen)
        return RequestPermissionResponse(outcome=outcome)

    # --- what a test does

    async def new(self, cwd: object, servers: Sequence[Any] = (), **more: Any) -> str:
        made = await self.connection.new_session(cwd=str(cwd), mcp_servers=list(servers), **more)
        return made.session_id

    async def say(self, session: str, *blocks: Any) -> str:
        """Send a prompt, and return the stop reason."""
        said = [acp.text_block(each) if isinstance(each, str) else each for each in blocks]
        return (await self.connection.prompt(session_id=session, prompt=said)).stop_reason

    async def until(self, session: str, fits: Callable[[Any], bool]) -> Any:
        """Wait for the first update of the session that `fits`."""
        while True:
            for update in self.told.get(session, []):
                if fits(update):
                    return update
            self.heard.clear()
            await self.heard.wait()

    def of(self, session: str, kind: str) -> list[Any]:
        return [each for each in self.told.get(session, []) if each.session_update == kind]

    def text(self, session: str, kind: str = "agent_message_chunk") -> str:
        return "".join(each.content.text for each in self.of(session, kind))

    def calls(self, session: str) -> dict[str, dict[str, Any]]:
        """Return each tool call as it is after all updates, by its id."""
        calls: dict[str, dict[str, Any]] = {}
        for update in self.told.get(session, []):
            if update.session_update in ("tool_call", "tool_call_update"):
                news = update.model_dump(exclude_none=True, exclude={"session_update"})
                calls.setdefault(update.tool_call_id, {}).update(news)
        return calls


@asynccontextmanager
async def editor(
    agent: Agent,
    *arguments: str,
    capabilities: ClientCapabilities | None = None,
    kind: type[Editor] = Editor,
    **given: Any,
) -> AsyncIterator[Editor]:
    """Run an editor; at the end its side is closed, and the process must end by itself."""
    client = kind(**given)
    with agent.start("acp", *arguments, stdin=PIPE, stderr=None) as process:
        client.process = process
        reader, writer = await _streams(process)
        connection = acp.connect_to_agent(client, writer, reader, use_unstable_protocol=True)
        client.connection = connection
        client.initialized = await connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION,
            client_capabilities=capabilities or ClientCapabilities(),
            client_info=Implementation(name="test", version="1"),
        )
        yield client
        writer.close()
        assert await asyncio.to_thread(process.wait, LIMIT_S) in client.ends_with
        await connection.close()


async def _streams(process: Popen[bytes]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Return the streams from the process and to it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST_LINE)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    transport, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
    )
    return reader, asyncio.StreamWriter(transport, protocol, None, loop)


def run(work: Any) -> Any:
    """Run a test's coroutine; a hang is a failure."""
    return asyncio.run(asyncio.wait_for(work, LIMIT_S))
