"""A conversation at a terminal: when one can type, how soon a key is seen while a reply streams,
and what showing that stream costs."""

from __future__ import annotations

import itertools
import json
import os
import select
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pexpect

from benchmarks.bench import KEY, Bench
from benchmarks.report import Figure, figure

_PART = "Conversation"
_PROMPT_MS = 250.0
_ECHO_MS = 20.0
_RENDERING_SHARE = 20.0
_TOKENS_A_SECOND = 500
_WORDS = ("The", "quick", "`fox`", "jumps", "over", "the", "**lazy**", "dog.\n\n")
_STARTS, _KEYS, _STREAM_S = 10, 60, 14
_KEY_EVERY_S = 0.1


def measure(bench: Bench) -> list[Figure]:
    """The cost of showing is that of a conversation over a run that shows nothing."""
    with _streaming() as address:
        environ = _environment(bench, address)
        bare = [_until(bench, [sys.executable, "-c", "print(1)"], environ, "1") for _ in range(5)]
        argv = [bench.agent]
        ready = [_until(bench, argv, environ, r"\x1b\[\?2004h.*>") for _ in range(_STARTS)]
        echoes, shown = _typed_beside_stream(bench, environ)
        unseen = _share([bench.agent, "run", "-q", "--no-stdin", "go"], bench, environ)
    over = [1000 * (each - min(bare)) for each in ready]
    return [
        figure(_PART, "prompt over bare Python", over, "ms", _PROMPT_MS),
        figure(_PART, "key to echo while 500 tokens/s stream", echoes, "ms", _ECHO_MS),
        figure(_PART, "slowest echo of 60", [max(echoes)], "ms"),
        figure(_PART, "a core, for showing the stream", [shown - unseen], "%", _RENDERING_SHARE),
        figure(_PART, "a core, in all", [shown], "%"),
    ]


def _environment(bench: Bench, address: str) -> dict[str, str]:
    home = bench.scratch / "talk"
    home.mkdir(exist_ok=True)
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "AGENT_HOME": str(home / "state"),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "OPENAI_API_KEY": KEY,
        "OPENAI_BASE_URL": f"{address}/v1",
        "AGENT_MODEL": "openai-chat/bench",
    }


def _spawn(argv: list[str], bench: Bench, environ: dict[str, str]) -> pexpect.spawn:
    child = pexpect.spawn(argv[0], argv[1:], cwd=str(bench.workspace), env=environ)
    child.delaybeforesend = None
    return child


def _until(bench: Bench, argv: list[str], environ: dict[str, str], seen: str) -> float:
    """Seconds until `seen` is written."""
    began = time.monotonic()
    child = _spawn(argv, bench, environ)
    child.expect(seen)
    took = time.monotonic() - began
    child.close(force=True)
    return took


def _typed_beside_stream(bench: Bench, environ: dict[str, str]) -> tuple[list[float], float]:
    """Milliseconds from each key to its echo, and the share of a core in percent."""
    child = _spawn([bench.agent], bench, environ)
    child.expect("Shift-Tab")
    child.send("go\r")
    child.expect("jumps")
    before, began = _cpu_s(child.pid), time.monotonic()
    echoes = []
    for key in itertools.islice(itertools.cycle(b"QZXJ"), _KEYS):
        _read(child.child_fd, time.monotonic() + _KEY_EVERY_S)
        pressed = time.monotonic()
        os.write(child.child_fd, bytes([key]))
        seen = _read(child.child_fd, pressed + 1.0, bytes([key]))
        echoes.append(1000 * (seen - pressed))
    share = 100 * (_cpu_s(child.pid) - before) / (time.monotonic() - began)
    child.close(force=True)
    return echoes, share


def _share(argv: list[str], bench: Bench, environ: dict[str, str]) -> float:
    """Percent of a core while the stream goes on."""
    child = _spawn(argv, bench, environ)
    time.sleep(3)
    before, began = _cpu_s(child.pid), time.monotonic()
    time.sleep(6)
    share = 100 * (_cpu_s(child.pid) - before) / (time.monotonic() - began)
    child.close(force=True)
    return share


def _read(terminal: int, until: float, wanted: bytes = b"") -> float:
    """When `wanted` was read, or else the end."""
    while (left := until - time.monotonic()) > 0:
        ready = select.select([terminal], [], [], left)[0]
        data = os.read(terminal, 65_536) if ready else b""
        if wanted and wanted in data:
            break
    return time.monotonic()


def _cpu_s(pid: int) -> float:
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _streaming() -> Iterator[str]:
    """A model that answers every request with a long reply at an even pace."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Stream)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()


class _Stream(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""

    def handle(self) -> None:
        try:
            super().handle()
        except ConnectionError:
            # The client was ended in the middle of the reply.
            self.close_connection = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        began = time.monotonic()
        words = itertools.islice(itertools.cycle(_WORDS), _STREAM_S * _TOKENS_A_SECOND)
        for number, word in enumerate(words):
            self._send(_chunk({"content": f"{word} "}))
            ahead = began + number / _TOKENS_A_SECOND - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)
        self._send(_chunk({}, "stop"))
        usage = {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
        self._send({**_chunk({}), "choices": [], "usage": usage})
        self._write(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")

    def _send(self, event: dict[str, Any]) -> None:
        self._write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def _write(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))


def _chunk(delta: dict[str, str], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "bench", "object": "chat.completion.chunk", "created": 1, "model": "bench"}
    return {**head, "choices": [choice]}
