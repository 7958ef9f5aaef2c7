"""What a test has the server answer: replies, and the ways in which an answer can go wrong."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

Ending: TypeAlias = Literal["close", "cut", "reset"]
"""How a broken answer ends. `close`: the body is framed by the connection's end, so HTTP itself
looks whole and only the protocol's own end marks are missing. `cut`: the last HTTP chunk is
missing, so the client's HTTP layer notices. `reset`: the connection is reset."""


@dataclass(frozen=True)
class Recorded:
    """One request for an answer, as it came in."""

    api: str
    """`chat_completions`, `responses` or `anthropic_messages`."""
    path: str
    headers: Mapping[str, str]
    """Names in lower case."""
    body: dict[str, Any]
    """The parsed body; empty when it was not a JSON object."""
    raw: bytes
    refused: bool = False
    """Answered 400, 401 or 404 by the server's own judgement; the script was not asked."""


@dataclass(frozen=True)
class Call:
    """One tool call of a reply."""

    name: str
    arguments: Mapping[str, object] | str = field(default_factory=dict)
    """A mapping is sent as JSON; a string is sent as it is, so that JSON can be broken."""
    id: str | None = None
    """A fresh one in the provider's form when None."""

    @property
    def raw(self) -> str:
        """The arguments as the model would write them."""
        if isinstance(self.arguments, str):
            return self.arguments
        return json.dumps(self.arguments, ensure_ascii=False)


@dataclass(frozen=True)
class Usage:
    """Token counts of one answer, in no provider's terms."""

    input: int
    """The whole prompt, cached and written parts included."""
    output: int
    cached: int = 0
    """Read from the prompt cache."""
    written: int = 0
    """Written to the prompt cache (reported by Anthropic only)."""
    reasoning: int = 0
    """The part of `output` that was reasoning."""


@dataclass(frozen=True)
class Reply:
    """A model's turn."""

    text: str = ""
    calls: Sequence[Call] = ()
    reasoning: str = ""
    finish: str | None = None
    """`stop`, `tool_calls`, `length` or `content_filter`, put in the provider's words; any other
    word is sent as it is. None: `tool_calls` with calls, else `stop`."""
    usage: Usage | None = None
    """Counted from the request when None."""
    chunk: int = 16
    """How many characters one streamed delta carries."""

    @property
    def finish_word(self) -> str:
        """The reason the turn ended, in this module's words."""
        return self.finish or ("tool_calls" if self.calls else "stop")

    @property
    def size(self) -> int:
        """How many characters the model wrote."""
        return len(self.text) + len(self.reasoning) + sum(len(call.raw) for call in self.calls)


@dataclass(frozen=True)
class HttpError:
    """An error status in the provider's own error body."""

    status: int
    kind: str = ""
    """The provider's word for it, as `rate_limit_error`; by status when empty."""
    message: str = "scripted error"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StreamError:
    """`after` events of `reply`, then the provider's error event inside the stream. Without
    streaming it is a plain 500 (529 for an overloaded Anthropic)."""

    reply: Reply
    after: int = 3
    kind: str = "overloaded_error"
    message: str = "Overloaded"


@dataclass(frozen=True)
class Truncated:
    """`after` events of `reply`, at most those before the turn's end is told, and the connection
    ends without end marks. Without streaming, half of the body."""

    reply: Reply
    after: int = 3
    how: Ending = "close"


@dataclass(frozen=True)
class LengthStop:
    """`reply` stopped by the token limit: its last call, if any, is cut in its arguments."""

    reply: Reply

    def cut(self) -> Reply:
        """The reply as far as the model got."""
        calls = list(self.reply.calls)
        if calls:
            raw = calls[-1].raw
            calls[-1] = replace(calls[-1], arguments=raw[: len(raw) // 2])
        return replace(self.reply, calls=tuple(calls), finish="length")


@dataclass(frozen=True)
class Hang:
    """Headers, `after` events of `reply`, then nothing until `event` is set; then the connection
    is cut. With `headers=False` not even those are sent."""

    event: threading.Event
    reply: Reply | None = None
    after: int = 0
    headers: bool = True


@dataclass(frozen=True)
class Paused:
    """`after` events of `reply`; the rest once `event` is set."""

    event: threading.Event
    reply: Reply
    after: int = 3


@dataclass(frozen=True)
class Trickle:
    """Headers, then `drop` again and again, until `event` is set; then the connection is cut."""

    event: threading.Event
    drop: bytes = b": keep-alive\n\n"


@dataclass(frozen=True)
class Altered:
    """The whole answer to `reply` as `change` leaves it: the events of the stream, or the one
    document."""

    reply: Reply
    change: Callable[[list[bytes]], list[bytes]]
    headers: Mapping[str, str] = field(default_factory=dict)
    then: Ending | Literal["end"] = "end"


@dataclass(frozen=True)
class Raw:
    """An answer that no provider sends, as it stands; a captive portal's by default."""

    body: bytes = b"<html><body>Please log in.</body></html>"
    content_type: str = "text/html"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Dropped:
    """No answer at all: the connection ends."""

    how: Ending = "close"


@dataclass(frozen=True)
class Redirect:
    """Sent elsewhere; 307 keeps method and body."""

    to: str
    status: int = 307


Entry: TypeAlias = (
    Reply
    | HttpError
    | StreamError
    | Truncated
    | LengthStop
    | Hang
    | Paused
    | Trickle
    | Altered
    | Raw
    | Dropped
    | Redirect
)
Play: TypeAlias = Callable[[Recorded], Entry]
Step: TypeAlias = Entry | Play


def read_script(text: str) -> list[Step]:
    """The script in a JSON list of `{"text", "calls": [{"name", "arguments", "id"}], "reasoning",
    "finish", "usage": {"input", "output", ...}, "chunk"}`, or `{"status", "kind", "message",
    "headers"}` for an error. Raises TypeError on an unknown key."""
    return [_read_entry(dict(entry)) for entry in json.loads(text)]


def _read_entry(entry: dict[str, Any]) -> Step:
    if "status" in entry:
        return HttpError(**entry)
    calls = tuple(Call(**call) for call in entry.pop("calls", ()))
    usage = entry.pop("usage", None)
    return Reply(calls=calls, usage=Usage(**usage) if usage else None, **entry)
