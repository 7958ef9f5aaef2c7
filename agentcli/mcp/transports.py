"""Talk to a server over HTTP, or by lines on the stdin and stdout of a program.

The SDK has a transport for programs too, but it accepts lines of any length, logs each line that is
no message and passes on the environment. Ours sets limits, as the program may be untrusted.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from agentcli.mcp.values import HttpServer, StdioServer
from agentcli.system import processes
from agentcli.system.forks import reaper_installer

MOST_BYTES = 16_000_000
"""Largest message, in bytes; it has room for a few images."""
MOST_UNASKED = 20_000_000
"""Most bytes that a server may send between two answers: progress, notices and non-messages."""

Streams = TransportStreams


@dataclass
class Health:
    """The health of one connection. `fault` says why it can't be used any more, in words that begin
    with "it"; `said` is the last that its program wrote to stderr."""

    fault: str = ""
    said: bytes = b""
    ended: anyio.Event = field(default_factory=anyio.Event)

    def lost(self, why: str) -> None:
        """Note that the connection is lost; only the first reason is kept."""
        self.fault = self.fault or why
        self.ended.set()


_CONNECT_S = 10.0
_STATUS = {
    401: "it wants a sign-in (HTTP 401), and OAuth is not supported: give it a token, such as "
    'headers = { Authorization = "Bearer ${TOKEN}" }',
    403: "it refuses the credentials in its headers (HTTP 403)",
    404: "it has nothing at this address, or no longer knows the session (HTTP 404)",
}


@asynccontextmanager
async def http_streams(
    server: HttpServer, timeout_s: float, health: Health
) -> AsyncGenerator[Streams]:
    timeout = httpx2.Timeout(timeout_s + 5, connect=_CONNECT_S)
    client = _Watched(
        headers={**server.headers, "accept-encoding": "identity"},
        timeout=timeout,
        verify=not server.url.startswith("http://"),
        follow_redirects=False,
    )
    client.health = health
    async with (
        client,
        streamable_http_client(
            server.url, http_client=client, max_sse_event_size=MOST_BYTES
        ) as streams,
    ):
        yield streams


class _Watched(httpx2.AsyncClient):
    """An HTTP client that limits the size of each answer and notes why a request failed, as the SDK
    only gives a number."""

    health: Health

    async def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        try:
            response = await super().send(request, **options)
        except httpx2.TransportError as error:
            if request.method == "POST":
                self.health.fault = f"it can't be reached: {error or type(error).__name__}"
            raise
        if request.method == "POST":
            # A server that lacks a method may answer 400 or 405, which ends no connection.
            status = response.status_code
            other = f"it answered with HTTP {status}" if status >= 500 else ""
            self.health.fault = _STATUS.get(status, other)
        packed = response.headers.get("content-encoding", "identity")
        if packed != "identity":
            raise httpx2.DecodingError(
                f"it is compressed as {packed[:40]}, which was not asked for"
            )
        assert isinstance(response.stream, httpx2.AsyncByteStream)
        response.stream = _Bounded(response.stream, self.health)
        return response


class _Bounded(httpx2.AsyncByteStream):
    """The body of an answer. Raises ReadError if it exceeds a limit, as some may never end."""

    def __init__(self, stream: httpx2.AsyncByteStream, health: Health) -> None:
        self._stream = stream
        self._health = health

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MOST_UNASKED
        async for data in self._stream:
            left -= len(data)
            if left < 0:
                self._health.fault = f"it sent more than {MOST_UNASKED / 1e6:.0f} MB in one answer"
                raise httpx2.ReadError(self._health.fault)
            yield data

    async def aclose(self) -> None:
        await self._stream.aclose()


_CHUNK = 65_536
_STDERR_KEPT = 4_000
_GRACE_S = 0.5
"""Seconds from the end of the program's input to SIGTERM, and from there to SIGKILL."""
_START = 100
"""Bytes at the start of a line within which a message says that it is one."""
_ANSWERS = (types.JSONRPCResponse, types.JSONRPCError)
_COST_OF_MESSAGE = 1_000
"""Bytes that each unrequested message counts for, in addition to its length."""


@asynccontextmanager
async def stdio_streams(server: StdioServer, health: Health) -> AsyncGenerator[Streams]:
    """Start the program, and end it with all its processes on exit. Raises OSError or ValueError if
    it can't be started."""
    mark = f"AGENT_SERVER_ID={os.urandom(16).hex()}"
    process = await _started(server, mark)
    to_session, from_program = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_program, from_session = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_read, process, to_session, health)
        tasks.start_soon(_write, process, from_session, health)
        tasks.start_soon(_read_stderr, process, health)
        try:
            yield from_program, to_program
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, mark)
            tasks.cancel_scope.cancel()
            for stream in (to_session, from_program, to_program, from_session):
                stream.close()


async def _started(server: StdioServer, mark: str) -> Process:
    options = server.options()
    name, _, value = mark.partition("=")
    argv, environment = options.launch(server.command, {**server.environment, name: value})
    stay_behind = reaper_installer() if options.reaper else None
    steps = [step for step in (stay_behind, options.preexec) if step is not None]

    def before() -> None:
        for step in steps:
            step()

    return await asyncio.create_subprocess_exec(
        *argv,
        stdin=PIPE,
        stdout=PIPE,
        stderr=PIPE,
        cwd=options.cwd,
        env=environment,
        preexec_fn=before if steps else None,
        # close_fds would also close the descriptors that bwrap must inherit; all our others are
        # close-on-exec anyway.
        close_fds=not steps,
        # ^C at the terminal reaches only us, and the program has no terminal to write to.
        start_new_session=True,
    )


async def _read(
    process: Process,
    to_session: MemoryObjectSendStream[SessionMessage | Exception],
    health: Health,
) -> None:
    """Pass on the program's messages until it ends or breaks a limit."""
    assert process.stdout is not None
    buffer, block, unasked = bytearray(), bytearray(), 0
    try:
        while not health.fault and (data := await process.stdout.read(_CHUNK)):
            buffer += data
            lines: list[bytearray] = []
            if b"\n" in data:
                *lines, buffer = buffer.split(b"\n")
            elif len(buffer) > MOST_BYTES:
                health.fault = f"it sent a message of more than {MOST_BYTES / 1e6:.0f} MB"
            for line in _joined(lines, block):
                messages = _parsed(line, health)
                answers = [m for m in messages if isinstance(m, _ANSWERS)]
                unasked = 0 if answers else unasked + len(line) + _COST_OF_MESSAGE
                if unasked > MOST_UNASKED:
                    health.fault = "it sent far more than anybody asked for"
                if health.fault:
                    break
                for message in messages:
                    await to_session.send(SessionMessage(message))
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        pass
    finally:
        health.lost("it ended")
        # This tells the SDK's session that nothing more will come, so open requests fail.
        to_session.close()


def _joined(lines: Iterable[bytearray], block: bytearray) -> Iterator[bytes]:
    """Yield `lines`; those over which a program spreads a value, indented, as one. `block` has the
    unfinished one."""
    for line in lines:
        text = bytes(line.rstrip())
        if text in (b"{", b"["):
            block[:] = text
        elif block and text[:1] in b" \t}]" and len(block) < MOST_BYTES:
            block += text
            if text[:1] in b"}]":
                yield bytes(block)
                block.clear()
        elif text:
            block.clear()
            yield text.strip()


def _parsed(line: bytes, health: Health) -> list[types.JSONRPCMessage]:
    """Return the messages in a line; none if it has none, as many programs print text, values and
    logs there, of their own or of libraries."""
    text = line.decode("utf-8", "replace").lstrip("\ufeff")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = _embedded(text)
        if found is None and text.startswith("{") and '"jsonrpc"' in text[:_START]:
            health.fault = "it sent a broken message"
    messages = []
    for each in found if isinstance(found, list) else [found]:
        with suppress(ValidationError):
            messages.append(types.jsonrpc_message_adapter.validate_python(_message(each)))
    return messages


def _embedded(text: str) -> object:
    """Return an answer embedded in a line of other text, or None. Answers repeated in a log of the
    exchange do no harm."""
    try:
        found = json.JSONDecoder().raw_decode(text, text.index('{"jsonrpc"'))[0]
    except (ValueError, RecursionError):
        return None
    return found if "result" in found or "error" in found else None


def _message(found: object) -> object:
    """Return a value that looks like a message as a valid one, else None."""
    if not isinstance(found, dict):
        return None
    answers = "id" in found and len(found) > 1 and found.keys() <= {"id", "result", "error"}
    if "jsonrpc" not in found and not answers:
        return None
    message = {**found, "jsonrpc": "2.0"}
    if isinstance(number := message.get("id"), float):
        message["id"] = int(number)
    if (error := message.pop("error", None)) is not None:
        given = error if isinstance(error, dict) else {"message": error}
        code, said = given.get("code"), given.get("message")
        message["error"] = {
            **given,
            "code": code if isinstance(code, int) else types.INTERNAL_ERROR,
            "message": said if isinstance(said, str) else json.dumps(said or given),
        }
        message.pop("result", None)
    elif "method" not in message and not isinstance(message.get("result"), dict):
        message["result"] = {"content": message.get("result")}
    if message.get("params", {}) is None:
        del message["params"]
    return message


async def _write(
    process: Process, from_session: MemoryObjectReceiveStream[SessionMessage], health: Health
) -> None:
    assert process.stdin is not None
    with suppress(anyio.ClosedResourceError):
        async for message in from_session:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                process.stdin.write(f"{text}\n".encode())
                await process.stdin.drain()
            except (OSError, RuntimeError):
                health.lost("it reads no input")
                return


async def _read_stderr(process: Process, health: Health) -> None:
    assert process.stderr is not None
    while data := await process.stderr.read(_CHUNK):
        health.said = (health.said + data)[-_STDERR_KEPT:]


async def _end(process: Process, mark: str) -> None:
    """Ask the program to end by closing its input, then kill it and everything that it started."""
    assert process.stdin is not None
    with suppress(OSError, RuntimeError):
        process.stdin.close()
    for signum in (signal.SIGTERM, signal.SIGKILL):
        with anyio.move_on_after(_GRACE_S):
            await process.wait()
        # Its process group outlives it if it left other processes behind.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signum)
        if process.returncode is not None:
            break
    processes.kill_marked(mark)
    with anyio.move_on_after(_GRACE_S):
        await process.wait()
    # No public function closes its pipes, which a surviving process could hold open.
    transport = getattr(process, "_transport", None)
    if transport is not None:
        transport.close()
