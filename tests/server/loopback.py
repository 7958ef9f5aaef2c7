"""The HTTP side: reads requests, writes answers, and breaks them off where it is told to."""

from __future__ import annotations

import select
import socket
import socketserver
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

from .script import Ending


@dataclass(frozen=True)
class Answer:
    """An HTTP answer, and where it stops or waits on the way."""

    chunks: Sequence[bytes]
    status: int = 200
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    then: Ending | Literal["end"] = "end"
    """How it ends after the last chunk."""
    gate: threading.Event | None = None
    """Waited for after `gate_after` chunks."""
    gate_after: int = 0
    bare: bool = False
    """No status line, no headers, no chunks."""
    drop: bytes = b""
    """Sent again and again while the gate is shut."""


@dataclass(frozen=True)
class Incoming:
    """An HTTP request, read whole."""

    method: str
    path: str
    headers: Mapping[str, str]
    raw: bytes


Answerer = Callable[[Incoming], Answer]


class Loopback(ThreadingHTTPServer):
    """Listens on 127.0.0.1 and a port of its own; one thread for each connection."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, answerer: Answerer, on_crash: Callable[[], None]) -> None:
        self.answerer = answerer
        self.closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._on_crash = on_crash
        self._open: set[socket.socket] = set()
        self._open_lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def server_bind(self) -> None:
        """Bind without looking up a name for the address, which could ask a name server."""
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = "127.0.0.1", self.server_address[1]

    def start(self) -> None:
        """Serve in a thread until `stop`."""
        poll = {"poll_interval": 0.01}
        self._thread = threading.Thread(target=self.serve_forever, kwargs=poll, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening and end the connections that are still open."""
        self.closing.set()
        if self._thread is not None:
            self.shutdown()
        self.server_close()
        with self._open_lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue  # gone already

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._open_lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._open_lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no error; anything else is reported."""
        self._on_crash()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = 1 << 16
    server: Loopback

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing on standard error."""

    def do_GET(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def handle_expect_100(self) -> bool:
        going_on = super().handle_expect_100()
        self.wfile.flush()
        return going_on

    def _handle(self) -> None:
        length = self.headers.get("content-length", "0")
        if not length.isdigit() or "transfer-encoding" in self.headers:
            self.close_connection = True
            self._write(Answer([b'{"error":{"message":"Length required"}}'], status=411))
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        raw = self.rfile.read(int(length))
        if len(raw) < int(length):
            # Its client died before the request was whole: to a server it was none.
            self.close_connection = True
            return
        self._write(self.server.answerer(Incoming(self.command, self.path, headers, raw)))

    def _write(self, answer: Answer) -> None:
        whole = answer.then == "end" and answer.gate is None and len(answer.chunks) == 1
        chunked = not whole and answer.then != "close"
        if not answer.bare:
            self._head(answer, whole, chunked)
        head = answer.gate_after if answer.gate else len(answer.chunks)
        self._chunks(answer.chunks[:head], chunked)
        if answer.gate:
            self.wfile.flush()
            self._wait(answer.gate, [answer.drop] if answer.drop else [], chunked)
            self._chunks(answer.chunks[head:], chunked)
        if answer.then == "end":
            self.wfile.write(b"0\r\n\r\n" if chunked else b"")
            self.wfile.flush()
            return
        self.wfile.flush()
        self.close_connection = True
        if answer.then == "reset":
            # With a linger time of zero, closing sends RST in place of FIN.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            for part in (self.wfile, self.rfile, self.connection):
                part.close()
            raise ConnectionResetError("as scripted")

    def _head(self, answer: Answer, whole: bool, chunked: bool) -> None:
        reason = HTTPStatus(answer.status).phrase if answer.status in _STATUSES else "Unknown"
        lines = [f"HTTP/1.1 {answer.status} {reason}", f"content-type: {answer.content_type}"]
        if whole:
            lines.append(f"content-length: {len(answer.chunks[0])}")
        elif chunked:
            lines.append("transfer-encoding: chunked")
        else:
            lines.append("connection: close")
        lines += [f"{name}: {value}" for name, value in answer.headers.items()]
        self.wfile.write("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def _chunks(self, chunks: Sequence[bytes], chunked: bool) -> None:
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk) if chunked else chunk)

    def _wait(self, gate: threading.Event, drops: Sequence[bytes], chunked: bool) -> None:
        """Until the gate opens, the client has gone or the server closes."""
        while not gate.wait(0.02) and not self.server.closing.is_set():
            self._chunks(drops, chunked)
            self.wfile.flush()
            readable, _, _ = select.select([self.connection], [], [], 0)
            if readable and not self.connection.recv(1, socket.MSG_PEEK):
                raise ConnectionAbortedError("the client has gone")


_STATUSES = {status.value for status in HTTPStatus}
