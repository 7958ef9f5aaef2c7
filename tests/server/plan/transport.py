"""Connections that are refused, end, break or fall silent, and answers of somebody else."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

from ..script import Altered, Dropped, Ending, Hang, Raw, Step, Trickle, Truncated
from .fault import (
    CHAT,
    HALF,
    MESSAGES,
    RESPONSES,
    RETRIES,
    Fails,
    Fault,
    Scene,
    final,
    mended,
    passing,
)

FAULTS: dict[str, Fault] = {}

FAULTS["refused"] = Fault(lambda scene: [], Fails("not_running", requests=0), unreachable=True)
FAULTS |= mended("close without an answer", lambda scene: Dropped("close"), "connection")
FAULTS |= mended("reset without an answer", lambda scene: Dropped("reset"), "connection")


def _truncated(after: int, how: Ending) -> Callable[[Scene], Step]:
    return lambda scene: Truncated(HALF, after, how)


for _how in get_args(Ending):
    _kind = "bad_response" if _how == "close" else "connection"
    for _after in (0, 1, 2, 5, 99):
        _name = f"{_how} after {_after} events"
        FAULTS |= passing(_name, _truncated(_after, _how), streamed=(True,))
    FAULTS |= mended(f"{_how} after 4 events", _truncated(4, _how), _kind, streamed=(True,))
    FAULTS |= mended(f"{_how} in the middle", _truncated(0, _how), _kind, streamed=(False,))

_SILENT: dict[str, tuple[Callable[[Scene], Step], tuple[bool, ...]]] = {
    "silent": (lambda scene: Hang(scene.released), (True, False)),
    "mute": (lambda scene: Hang(scene.released, headers=False), (True, False)),
    "falls silent": (lambda scene: Hang(scene.released, HALF, after=3), (True,)),
    "blanks only": (lambda scene: Trickle(scene.released, b" "), (False,)),
}
_STALLED = Fails("stalled", requests=1 + RETRIES)
for _name, (_step, _ways) in _SILENT.items():
    FAULTS |= final(_name, _step, _STALLED, streamed=_ways, silence_s=0.15)
FAULTS |= passing(
    "falls silent, once", _SILENT["falls silent"][0], apis=(CHAT,), streamed=(True,), silence_s=2.0
)

_OTHERS = {
    CHAT: b'{"type":"message","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn"}',
    RESPONSES: b'{"object":"chat.completion","choices":[{"message":{"content":"Hi"}}]}',
    MESSAGES: b'{"object":"response","status":"completed","output":[]}',
}
_ANSWERS: dict[str, Callable[[Scene], Step]] = {
    "a page": lambda scene: Raw(),
    "a page called JSON": lambda scene: Raw(content_type="application/json"),
    "a page called a stream": lambda scene: Raw(content_type="text/event-stream"),
    "nothing": lambda scene: Raw(b"", "application/json"),
    "an empty stream": lambda scene: Raw(b"", "text/event-stream"),
    "null": lambda scene: Raw(b"null", "application/json"),
    "a list": lambda scene: Raw(b"[]", "application/json"),
    "an empty object": lambda scene: Raw(b"{}", "application/json"),
    "a number": lambda scene: Raw(b"data: 7\n\n" if scene.streamed else b"7", _type(scene)),
    "half an object": lambda scene: Raw(b'{"id":', "application/json"),
    "a deep nest": lambda scene: Raw(_data(scene, b"[" * 100_000), _type(scene)),
    "another API": lambda scene: Raw(_data(scene, _OTHERS[scene.api]), _type(scene)),
    "not UTF-8": lambda scene: Altered(replace(HALF, chunk=99), _spoilt),
    "broken gzip": lambda scene: Altered(HALF, _spoilt, {"content-encoding": "gzip"}),
    "cut gzip": lambda scene: Altered(HALF, _cut_gzip, {"content-encoding": "gzip"}),
}


def _type(scene: Scene) -> str:
    return "text/event-stream" if scene.streamed else "application/json"


def _data(scene: Scene, body: bytes) -> bytes:
    return b"data: " + body + b"\n\n" if scene.streamed else body


def _spoilt(chunks: list[bytes]) -> list[bytes]:
    return [chunk.replace("naïve".encode(), b"na\xefve") for chunk in chunks]


def _cut_gzip(chunks: list[bytes]) -> list[bytes]:
    whole = gzip.compress(b"".join(chunks))
    return [whole[: len(whole) // 2]]


for _name, _step in _ANSWERS.items():
    FAULTS |= mended(f"sends {_name}", _step, "bad_response")
