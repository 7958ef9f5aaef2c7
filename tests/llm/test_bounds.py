"""What a server can make a run take: no answer, however long or however packed, costs more memory
than a reply may need, and each ends in an error that says so."""

from __future__ import annotations

import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import chain, repeat

import pytest

from tests.conftest import LIMIT_S, MODELS

MOST_MB = 200
"""Of a run that has loaded its SDK, some 95 (openai) or 120 (anthropic) are there before."""
KEYS = {"OPENAI_API_KEY": "sk-test-0123456789abcdef", "ANTHROPIC_API_KEY": "sk-ant-test-01234567"}
MEGABYTE = b"a" * 1_000_000
STREAM, JSON = "text/event-stream", "application/json"


def _bomb() -> Iterator[bytes]:
    """700 MB in a thousandth of it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    for _ in range(700):
        yield packer.compress(bytes(1_000_000))
    yield packer.flush()


def _endless(*, start: bytes = b"", piece: bytes = MEGABYTE) -> Callable[[], Iterator[bytes]]:
    return lambda: chain([start], repeat(piece, 700_000_000 // len(piece)))


ATTACKS: dict[str, tuple[str, str, str, Callable[[], Iterator[bytes]]]] = {
    "a body of 700 MB": ("200 OK", JSON, "", _endless()),
    "a line of 700 MB": ("200 OK", STREAM, "", _endless(start=b"data: ")),
    "an event of 700 MB": ("200 OK", STREAM, "", _endless(piece=b"data: %s\n" % MEGABYTE)),
    "700 MB of events": (
        "200 OK",
        STREAM,
        "",
        _endless(piece=b'data: {"a": "' + MEGABYTE + b'"}\n\n'),
    ),
    "a bomb": ("200 OK", JSON, "gzip", _bomb),
    "a bomb in a stream": ("200 OK", STREAM, "gzip", _bomb),
    "a bomb as an error": ("400 Bad Request", JSON, "gzip", _bomb),
    "an error of 700 MB": ("500 Internal Server Error", JSON, "", _endless()),
    "a redirect of 700 MB": ("302 Found", JSON, "", _endless()),
}


@contextmanager
def _server(attack: str) -> Iterator[str]:
    """Answers every request in the same way, for as long as somebody listens."""
    status, kind, packed, body = ATTACKS[attack]
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\nconnection: close\r\n"
    head += f"content-encoding: {packed}\r\n" if packed else ""

    def answer(connection: socket.socket) -> None:
        # The other side hangs up, which is what it should do.
        with closing(connection), suppress(OSError):
            connection.recv(1 << 20)
            connection.sendall(f"{head}\r\n".encode())
            for piece in body():
                connection.sendall(piece)

    def serve() -> None:
        with suppress(OSError):
            while True:
                answer(listener.accept()[0])

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        # Closing alone does not wake a thread that accepts.
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(LIMIT_S)


@pytest.mark.cases(18)
@pytest.mark.parametrize("streamed", [True, False], ids=["streamed", "whole"])
@pytest.mark.parametrize("api", MODELS)
@pytest.mark.parametrize("attack", ATTACKS)
def test_an_answer_without_end_is_an_error_and_costs_little(agent, attack, api, streamed):
    provider = MODELS[api].partition("/")[0]
    with _server(attack) as url:
        agent.env |= {**KEYS, "OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url}
        code, told, peak_mb = agent.measured(
            *("run", "hello", "-m", MODELS[api], "--set", "llm.retries=0"),
            *("--set", f"providers.{provider}.stream={str(streamed).lower()}"),
        )
    assert code == 4, told
    if ATTACKS[attack][0] == "200 OK":
        assert "more than" in told
    assert peak_mb < MOST_MB
