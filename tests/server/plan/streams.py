"""Oddities of framing, of events and of encoding: some are mended, most are simply borne."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..script import Altered, Call, Raw, Reply, StreamError
from ..wire import event
from .fault import (
    CHAT,
    HALF,
    MESSAGES,
    RESPONSES,
    Change,
    Fails,
    Fault,
    each,
    final,
    is_stream,
    mended,
    taken,
)

FAULTS: dict[str, Fault] = {}
_STREAMED: dict[str, Any] = {"streamed": (True,)}


def _bytewise(chunks: list[bytes]) -> list[bytes]:
    return [bytes([byte]) for chunk in chunks for byte in chunk]


def _in_threes(chunks: list[bytes]) -> list[bytes]:
    whole = b"".join(chunks)
    return [whole[start : start + 3] for start in range(0, len(whole), 3)]


def _zipped(chunks: list[bytes]) -> list[bytes]:
    return [gzip.compress(b"".join(chunks))]


def _with(extra: bytes) -> Change:
    """`extra` before each event of a stream."""
    return lambda chunks: [part for chunk in chunks for part in (extra, chunk)]


def _after(extra: bytes) -> Change:
    return lambda chunks: [*chunks, extra]


def _ended(line_end: bytes) -> Change:
    return lambda chunks: [chunk.replace(b"\n", line_end) for chunk in chunks]


_UNKNOWN = event({"type": "brand.new", "object": "brand.new", "index": 0}, "brand.new")
_BORNE: dict[str, Change] = {
    "CRLF": _ended(b"\r\n"),
    "CR": _ended(b"\r"),
    "CRLF, byte by byte": lambda chunks: _bytewise(_ended(b"\r\n")(chunks)),
    "byte by byte": _bytewise,
    "torn in characters": _in_threes,
    "one piece": lambda chunks: [b"".join(chunks)],
    "comments": _with(b": OPENROUTER PROCESSING\n\n"),
    "blank lines": _with(b"\n\n"),
    "empty data": _with(b"data:\n\n"),
    "unknown fields": _with(b"id: 7\nretry: 10\nfoo: bar\nfoo\n\n"),
    "unknown events": _with(_UNKNOWN),
    "no space after the colon": lambda chunks: [c.replace(b"data: ", b"data:") for c in chunks],
    "end twice": lambda chunks: [*chunks, chunks[-1]],
    "events after the end": lambda chunks: [*chunks, *chunks[1:4]],
    "an error after the end": _after(event({"type": "error", "error": {"message": "late"}})),
    "no line end at the end": lambda chunks: [*chunks[:-1], chunks[-1].rstrip()],
}
for _name, _change in _BORNE.items():
    FAULTS |= taken(f"stream with {_name}", Altered(HALF, _change), **_STREAMED)
FAULTS |= taken(
    "BOM", Altered(HALF, lambda chunks: [b"\xef\xbb\xbf" + chunks[0], *chunks[1:]])
)  # fmt: skip
FAULTS |= taken("gzip", Altered(HALF, _zipped, {"content-encoding": "gzip"}))
FAULTS |= taken(
    "DONE missing", Altered(HALF, lambda chunks: chunks[:-1]), apis=(CHAT,), **_STREAMED
)
FAULTS |= mended(
    "end mark missing",
    lambda scene: Altered(HALF, lambda chunks: chunks[:-1]),
    "bad_response",
    apis=(RESPONSES,),
    **_STREAMED,
)
FAULTS |= taken(
    "message_stop missing", Altered(HALF, lambda chunks: chunks[:-1]), apis=(MESSAGES,), **_STREAMED
)

# --- what the text is made of -------------------------------------------------------------------

_TEXTS = {
    "line separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg\x1eh\r\ni",
    "NUL": "a\0b",
    "a lone surrogate": "a\ud83db\udc00c",
    "every plane": "aé€𝄞\U0010fffd",
    "escapes": "\x1b[31mred\x1b]0;title\x07",
}
for _name, _text in _TEXTS.items():
    _calls = [*HALF.calls, Call("write", {"path": "other", "content": _text})]
    FAULTS |= taken(f"text with {_name}", Reply(_text, _calls, chunk=3))
FAULTS |= taken("5 MB of text", Reply("lorem ips\n" * 500_000, HALF.calls, chunk=512))
FAULTS |= taken(
    "500 calls",
    Reply("", [*HALF.calls, *[Call("glob", {"pattern": "x"})] * 500], chunk=99),
    **_STREAMED,
)

# --- errors inside a stream ---------------------------------------------------------------------

_FRAMES = {
    CHAT: {
        "server_error": "server_error",
        "rate_limit_exceeded": "rate_limit",
        "overloaded_error": "overloaded",
    },
    RESPONSES: {
        "server_error": "server_error",
        "rate_limit_exceeded": "rate_limit",
        "server_is_overloaded": "overloaded",
        "slow_down": "overloaded",
    },
    MESSAGES: {
        "api_error": "server_error",
        "rate_limit_error": "rate_limit",
        "overloaded_error": "overloaded",
        "timeout_error": "timeout",
    },
}
_FINAL_FRAMES = {
    CHAT: {"invalid_request_error": "bad_request", "insufficient_quota": "billing"},
    RESPONSES: {"invalid_prompt": "bad_request", "insufficient_quota": "billing"},
    MESSAGES: {
        "invalid_request_error": "bad_request",
        "billing_error": "billing",
        "permission_error": "auth_permanent",
    },
}


def _frame(kind: str, after: int) -> Callable[[Any], StreamError]:
    return lambda scene: StreamError(HALF, after, kind, "As scripted")


for _api, _kinds in _FRAMES.items():
    for _word, _kind in _kinds.items():
        for _place in (0, 3):
            FAULTS |= mended(
                f"{_api} error frame {_word} after {_place}",
                _frame(_word, _place),
                _kind,
                apis=(_api,),
                **_STREAMED,
            )
for _api, _kinds in _FINAL_FRAMES.items():
    for _word, _kind in _kinds.items():
        _failing = Fails(_kind, 3 if _kind == "auth_permanent" else 4)
        FAULTS |= final(
            f"{_api} error frame {_word}", _frame(_word, 3), _failing, apis=(_api,), **_STREAMED
        )
for _code, _kind in ((502, "server_error"), (429, "rate_limit"), ("429", "rate_limit")):
    FAULTS |= mended(
        f"error frame with status {_code!r}",
        lambda scene, code=_code: Raw(  # type: ignore[misc]
            event({"error": {"code": code, "message": "upstream failed"}, "choices": []})
            if scene.streamed
            else event({"error": {"code": code, "message": "upstream failed"}})[6:],
            "text/event-stream" if scene.streamed else "application/json",
        ),
        _kind,
        apis=(CHAT,),
    )
FAULTS |= mended(
    "error frame of a text",
    lambda scene: Altered(HALF, _after_second(event({"type": "error", "error": "it broke"}))),
    "server_error",
    **_STREAMED,
)
FAULTS |= mended("failed", lambda scene: Reply(finish="failed"), "server_error", apis=(RESPONSES,))


def _after_second(extra: bytes) -> Change:
    return lambda chunks: [*chunks[:2], extra]


# --- choices of Chat Completions ----------------------------------------------------------------


def _second_choice(data: dict[str, Any]) -> Any:
    choices = data["choices"]
    key = "delta" if "chunk" in data["object"] else "message"
    noise = {"index": 1, "finish_reason": None, key: {"role": "assistant", "content": "noise"}}
    return data | {"choices": [noise, *choices]} if choices else data


def _alone(chunks: list[bytes]) -> list[bytes]:
    """A second choice in events of its own."""
    if not is_stream(chunks):
        return each(_second_choice)(chunks)
    noise = {"index": 1, "finish_reason": "length", "delta": {"content": "noise"}}
    return _with(event({"object": "chat.completion.chunk", "choices": [noise]}))(chunks)


_FIRST = replace(HALF, text="")
for _name, _change in {"beside": each(_second_choice), "between": _alone}.items():
    FAULTS |= taken(f"second choice {_name} the first", Altered(_FIRST, _change), apis=(CHAT,))
