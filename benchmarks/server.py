"""A model on loopback that answers at once and notes when: `python -m benchmarks.server`.

It speaks Chat Completions, Responses and Anthropic Messages with the test server's own answers, but
reads and writes HTTP by hand, so that the times it notes hold little of its own work. A run is
`steps` replies that each call a shell tool, then a last one. POST /records gives what was noted and
begins the next run.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from dataclasses import asdict, dataclass, field
from typing import Any

from tests.server import Call, Recorded, Reply, Usage, anthropic_messages, chat_completions
from tests.server import responses as openai_responses
from tests.server.conversation import prefix_breaks

_APIS: tuple[Any, ...] = (chat_completions, openai_responses, anthropic_messages)
_BY_PATH = {api.PATH: api for api in _APIS}
_STREAMS = re.compile(rb'"stream" ?: ?true')
_TOOLS = re.compile(rb'"tools" ?: ?\[ ?\{')
_COMMAND_FIELDS = ("command", "cmd")
_RECEIVE = 1 << 18


@dataclass
class Seen:
    """One request: when its last byte came, when the answer's last byte went, how big it was."""

    received: float
    sent: float = 0.0
    size: int = 0


@dataclass
class Session:
    """What one run is to be answered, and what it asked."""

    steps: int = 0
    command: str = "true"
    last_command: str = ""
    """Called in the end in place of a last reply, for programs that finish by a command."""
    keep: bool = False
    """Keep all bodies, for comparing."""
    seen: list[Seen] = field(default_factory=list)
    connections: set[int] = field(default_factory=set)
    others: int = 0
    """Requests without tools in a run that began with some, such as those for a title."""
    bodies: list[bytes] = field(default_factory=list)
    api: str = ""

    def take(
        self, api: str, raw: bytes, received: float, connection: int
    ) -> tuple[Reply, Seen | None]:
        """The reply to a request; only the first request is parsed."""
        self.connections.add(connection)
        if self.bodies and not _TOOLS.search(raw) and _TOOLS.search(self.bodies[0]):
            self.others += 1
            return Reply("Title"), None
        seen = Seen(received, size=len(raw))
        self.seen.append(seen)
        if self.keep or not self.bodies:
            self.bodies.append(raw)
        self.api = api
        number = len(self.seen)
        # Each one another word, which `true` ignores: who repeats itself may be taken for stuck.
        command = f"{self.command} {number}" if number <= self.steps else self.last_command
        if not command:
            return Reply("Done."), seen
        if number == 1:
            self._tool = _shell_tool(json.loads(raw))
        name, argument, as_list = self._tool
        value: Any = ["bash", "-c", command] if as_list else command
        return Reply(calls=[Call(name, {argument: value})]), seen

    def report(self) -> dict[str, Any]:
        return {
            "seen": [asdict(seen) for seen in self.seen],
            "connections": len(self.connections),
            "others": self.others,
            "api": self.api,
            "first": json.loads(self.bodies[0]) if self.bodies else None,
            "prefix_breaks": self._breaks() if self.keep else None,
        }

    def _breaks(self) -> list[str]:
        requests = (Recorded(self.api, "", {}, json.loads(raw), raw) for raw in self.bodies)
        return prefix_breaks(requests, {api.NAME: api.parts for api in _APIS})


class Server:
    """One thread for each connection, one run at a time."""

    def __init__(self) -> None:
        self._session = Session()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]

    def serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            threading.Thread(target=self._converse, args=(connection,), daemon=True).start()

    def _converse(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            try:
                while (request := _read(connection)) is not None:
                    self._answer(connection, *request)
            except ConnectionError:
                return

    def _answer(self, connection: socket.socket, path: str, raw: bytes, received: float) -> None:
        path = path.partition("?")[0].removeprefix("/v1")
        api = _BY_PATH.get(path)
        if api is None:
            body = self._exchange(json.loads(raw)) if path == "/records" else b'{"data":[]}'
            connection.sendall(_http(body, streams=False))
            return
        with self._lock:
            reply, seen = self._session.take(api.NAME, raw, received, threading.get_native_id())
        streams = _STREAMS.search(raw) is not None
        settings = {"model": "bench", "stream": streams, "stream_options": {"include_usage": True}}
        chunks = api.render(reply, settings, Usage(input=len(raw) // 4, output=20))
        connection.sendall(_http(b"".join(chunks), streams=streams))
        if seen is not None:
            seen.sent = time.monotonic()

    def _exchange(self, following: dict[str, Any]) -> bytes:
        """The report on the run so far; a new one begins."""
        with self._lock:
            ended, self._session = self._session, Session(**following)
        return json.dumps(ended.report()).encode()


def _shell_tool(body: dict[str, Any]) -> tuple[str, str, bool]:
    """The first tool that takes a command: its name, the argument's name, whether as a list."""
    for tool in body.get("tools") or []:
        schema = tool.get("function") or tool
        parameters = schema.get("parameters") or schema.get("input_schema") or {}
        fields = parameters.get("properties") or {}
        for name in _COMMAND_FIELDS:
            if name in fields:
                return str(schema["name"]), name, fields[name].get("type") == "array"
    return "bash", "command", False


def _read(connection: socket.socket) -> tuple[str, bytes, float] | None:
    """Path, body and the moment its last byte was here; None when the client has gone."""
    data = bytearray()
    while (end := data.find(b"\r\n\r\n")) < 0:
        if not (more := connection.recv(_RECEIVE)):
            return None
        data += more
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", data[:end])
    size = end + 4 + (int(found[1]) if found else 0)
    while len(data) < size:
        if not (more := connection.recv(_RECEIVE)):
            return None
        data += more
    received = time.monotonic()
    return data.split(b" ", 2)[1].decode(), bytes(data[end + 4 :]), received


def _http(body: bytes, *, streams: bool) -> bytes:
    """A whole answer in one piece; a stream is framed as one chunk."""
    if streams:
        head = b"content-type: text/event-stream\r\ntransfer-encoding: chunked"
        body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    else:
        head = b"content-type: application/json\r\ncontent-length: %d" % len(body)
    return b"HTTP/1.1 200 OK\r\n" + head + b"\r\n\r\n" + body


def main() -> None:
    """Say the port on standard output, then serve until killed."""
    server = Server()
    print(server.port, flush=True)
    server.serve()


if __name__ == "__main__":
    main()
