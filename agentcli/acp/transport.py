"""Reads and writes the protocol's messages on the standard streams, one a line.

An invalid message is answered with JSON-RPC's error and never reaches the SDK, which it would end.
While this is in use nothing else reads stdin, and whatever is printed goes to stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import chain
from queue import SimpleQueue
from typing import Any, TypeVar

from agentcli.ui.jsonl import encode

T = TypeVar("T")


class Worker:
    """A thread that makes calls until `end`. It lives that long because sandboxed processes end
    with the thread that started them. It is a daemon, so that a call that hangs does not keep the
    process from ending."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def do(self, call: Callable[[], T]) -> Future[T]:
        """Make `call` on the thread; return a future of its result."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        self._calls.put(run)
        return future

    def end(self) -> None:
        """End the thread once all calls are made."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


Message = dict[str, Any]

LONGEST_LINE = 64_000_000
"""In bytes; a prompt contains its images."""
_CHUNK = 1 << 16
_MOST_WAITING = 64
"""How many lines are read ahead."""
_PARSE_ERROR, _INVALID_REQUEST, _INTERNAL_ERROR = -32700, -32600, -32603


class StdioTransport:
    """A `Transport` of the SDK. Threads read and write, so that a client that reads nothing blocks
    only its own sessions, and any kind of stream will do."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(_MOST_WAITING)
        self._source, self._target = _taken_streams()
        self._writer = Worker("stdout")
        self.closed = asyncio.Event()
        """Is set once nobody reads any more."""
        threading.Thread(target=self._read, name="stdin", daemon=True).start()

    async def receive(self) -> Message | None:
        """Return the next message; None at the end of input."""
        while (line := await self._lines.get()) is not None:
            if not line.strip():
                continue
            try:
                return read_message(line)
            except InvalidMessage as invalid:
                with suppress(ConnectionError):
                    await self.send(invalid.answer)
        return None

    async def send(self, message: Message) -> None:
        """Write a message. Raises ConnectionError if nobody reads any more."""
        if self.closed.is_set():
            raise ConnectionError("the client is gone")
        try:
            await asyncio.wrap_future(self._writer.do(partial(_write, self._target, message)))
        except OSError as error:
            self.closed.set()
            raise ConnectionError(f"the client is gone: {error.strerror}") from error

    async def close(self) -> None:
        self.closed.set()
        self._writer.end()

    def _read(self) -> None:
        for line in chain(_lines_of(self._source), (None,)):
            try:
                asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()
            except (RuntimeError, asyncio.CancelledError):
                return  # the loop has ended first


def _taken_streams() -> tuple[int, int]:
    """Return descriptors of what were stdin and stdout, and put others in their place: programs
    that are started must not read the one, and what anybody prints must not get into the other."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return source, target


def _lines_of(descriptor: int) -> Iterator[bytes]:
    """Yield line by line; a line that is too long is cut one byte over the limit."""
    rest = bytearray()
    while True:
        try:
            data = os.read(descriptor, _CHUNK)
        except OSError:
            data = b""
        if not data:
            break
        searched = len(rest)
        rest += data
        while (end := rest.find(b"\n", searched)) >= 0:
            yield bytes(rest[:end])
            del rest[: end + 1]
            searched = 0
        del rest[LONGEST_LINE + 1 :]
    if rest.strip():
        yield bytes(rest)


def _write(descriptor: int, message: Message) -> None:
    try:
        data = encode(message)
    except (TypeError, ValueError):
        # Such as the values that a complaint about values repeats.
        data = encode(json.loads(json.dumps(message, default=str)))
    view = memoryview(data + b"\n")
    while view:
        view = view[os.write(descriptor, view) :]


class InvalidMessage(Exception):
    """A line that is no message. `answer` is the error to reply with."""

    def __init__(self, code: int, message: str, why: str, request_id: object = None) -> None:
        super().__init__(why)
        error = {"code": code, "message": f"{message}: {why}"}
        self.answer: Message = {"jsonrpc": "2.0", "id": request_id, "error": error}


def read_message(line: bytes) -> Message:
    """Parse a line. Raises InvalidMessage if it is no message."""
    if len(line) > LONGEST_LINE:
        why = f"a message has {LONGEST_LINE // 1_000_000} MB at most"
        raise InvalidMessage(_PARSE_ERROR, "Parse error", why)
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(_PARSE_ERROR, "Parse error", str(error)) from error
    if not isinstance(message, dict):
        raise InvalidMessage(_INVALID_REQUEST, "Invalid request", "a message is one JSON object")
    request_id = message.get("id")
    if isinstance(request_id, bool | float | list | dict):
        raise InvalidMessage(_INVALID_REQUEST, "Invalid request", "an id is text or a whole number")
    if "method" in message:
        if not isinstance(message["method"], str):
            raise InvalidMessage(_INVALID_REQUEST, "Invalid request", "method is text", request_id)
        return message
    if request_id is None or not ("result" in message or "error" in message):
        raise InvalidMessage(_INVALID_REQUEST, "Invalid request", "there is no method", request_id)
    return message if "error" not in message else {**message, "error": _error(message["error"])}


def _error(given: Any) -> Message:
    """Return the error of an answer in the form that the SDK takes."""
    found = given if isinstance(given, dict) else {"message": str(given)}
    code, said = found.get("code"), found.get("message")
    return {
        "code": code if isinstance(code, int) else _INTERNAL_ERROR,
        "message": said if isinstance(said, str) else "no reason was given",
        "data": found.get("data"),
    }
