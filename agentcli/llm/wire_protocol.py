"""What a wire format must do, and what all of them share."""

from __future__ import annotations

import codecs
import json
import logging
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, NoReturn, Protocol
from uuid import uuid4

from agentcli.errors import AgentError, LLMError, LLMErrorKind
from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.messages import Message, Reply, Request, ToolCall, common_start

_PARSE_ERRORS = (
    ValueError,
    RecursionError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
)
"""What taking apart an answer raises when it does not have the form it should have."""

_IDLE_S = 600.0
"""Signs of life count for so long; without anything else the server then counts as silent."""

_MOST_TOKENS = 1_000_000_000
"""Counts beyond it are no counts."""

_LONGEST_ID = 32
"""OpenAI takes 40 characters; an id used twice in a session is told apart by a few more."""

log = logging.getLogger(__name__)

_BYTES_PER_TOKEN = 1_000
"""Of a stream: what servers write around a token has some 300."""
_BYTES_BESIDE = 24_000_000
"""OpenAI's Responses say the whole reply four times more."""
_LARGEST_WHOLE = 16_000_000
"""Bytes of an answer that is no stream."""
_LARGEST_EVENT = 8_000_000
"""Characters of a server-sent event."""


@dataclass(frozen=True, slots=True)
class StillAlive:
    """Something came from the server that is of no other interest; `idle`: nothing of a reply, but
    a sign that the server works on one."""

    idle: bool = False


StreamItem = TextDelta | ReasoningDelta | ToolCallStarted | StillAlive | Reply


@dataclass(frozen=True)
class Endpoint:
    """Where a model is and how to get in. `api_key` None: the server wants none. `drop_params` are
    members of a body that are never sent. `images` False: the model takes none."""

    provider: str
    model: str
    base_url: str
    api_key: str | None
    headers: Mapping[str, str] = field(default_factory=dict)
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    drop_params: Sequence[str] = ()
    stream: bool = True
    images: bool = True
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 120.0

    @property
    def name(self) -> str:
        """The model's full name, by which it knows the opaque data that it wrote itself."""
        return f"{self.provider}/{self.model}"

    def head(self, members: Mapping[str, Any]) -> dict[str, Any]:
        """`members` of a request body, what the user adds to it, less what the user leaves out."""
        wanted = {**members, **self.extra_body}
        return {name: value for name, value in wanted.items() if name not in self.drop_params}


@dataclass
class ReplySize:
    """How long the answer that comes next may be."""

    most_bytes: int = _LARGEST_WHOLE

    def expect(self, request: Request, *, stream: bool) -> None:
        streamed = _BYTES_BESIDE + _BYTES_PER_TOKEN * request.max_output_tokens
        self.most_bytes = streamed if stream else _LARGEST_WHOLE


class WireProtocol(Protocol):
    """One wire format at one endpoint; used from one thread at a time."""

    def connect(self) -> None:
        """Import the SDK and build its client; called again after `abort`."""

    def answer(self, request: Request) -> Iterator[StreamItem]:
        """The reply as it comes, a complete Reply last. Raises what the SDK raises."""

    def body_bytes(self, request: Request) -> int:
        """Size of the body that `answer` would send; 0 when nothing is sent."""

    def translate(self, error: Exception) -> LLMError:
        """What an exception of `answer` means; one that is not known is logged."""

    def models(self) -> list[str]:
        """Ids of the models the endpoint offers. Raises LLMError."""

    def abort(self) -> None:
        """Drop the connection, from any thread; `answer` then fails soon."""


class WireParts:
    """The wire form of each message as bytes, serialised once.

    Messages are compared by identity: as long as the conversation grows at its end, only what is
    new costs anything but copying. `encode` gives the JSON values a message amounts to.
    """

    def __init__(self, encode: Callable[[Message], list[Any]]) -> None:
        self._encode = encode
        self._messages: list[Message] = []
        self._parts: list[bytes] = []
        self.unchanged = 0
        """How many messages of the last call were those of the call before."""

    def of(self, messages: Sequence[Message]) -> list[bytes]:
        """For each message its JSON values joined by commas; empty for one without any."""
        self.unchanged = same = common_start(self._messages, messages)
        self._messages[same:] = messages[same:]
        self._parts[same:] = [
            b",".join(dump(value) for value in self._encode(message)) for message in messages[same:]
        ]
        return self._parts


def dump(value: Any) -> bytes:
    """Compact JSON; lone surrogates and NULs, which providers refuse, become U+FFFD."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if "\\u0000" in text:
        text = json.dumps(_without_nul(value), ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\ufffd")
    if isinstance(value, Mapping):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return [_without_nul(item) for item in value] if isinstance(value, list | tuple) else value


def wire_name(name: str) -> str:
    """A tool name as every provider takes it back, whatever the model made up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def wire_arguments(raw: str) -> dict[str, Any]:
    """Call arguments as the JSON object that providers want back, broken ones quoted inside."""
    try:
        values = json.loads(raw or "{}", parse_constant=_refuse)
    except (ValueError, RecursionError):
        values = None
    return values if isinstance(values, dict) else {"invalid_arguments": raw}


def tool_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A call as a server sent it. Arguments that are an object already, or JSON encoded twice, are
    what they should have been; anything else stays as it is, for the tool to refuse."""
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments)
    elif arguments.startswith('"'):
        arguments = _encoded_twice(arguments) or arguments
    return ToolCall(str(call_id or ""), str(name or ""), arguments)


def _encoded_twice(arguments: str) -> str | None:
    """The JSON object inside a JSON string, if that is what it is."""
    try:
        inner = json.loads(arguments)
        return inner if isinstance(json.loads(inner), dict) else None
    except (ValueError, TypeError, RecursionError):
        return None


def unique_calls(calls: Iterable[ToolCall], prefix: str) -> tuple[ToolCall, ...]:
    """`calls` with ids of a form every provider takes back, none empty, none twice."""
    seen: set[str] = set()
    result = []
    for call in calls:
        call_id = call.id
        fit = re.fullmatch(r"[a-zA-Z0-9_-]+", call_id) and len(call_id) <= _LONGEST_ID
        if not fit or call_id in seen:
            call_id = f"{prefix}{uuid4().hex[:24]}"
        seen.add(call_id)
        result.append(ToolCall(call_id, call.name, call.arguments))
    return tuple(result)


def text_of(value: object) -> str:
    """A piece of text as it came, or what the parts of a list of parts say. Raises TypeError."""
    if isinstance(value, list):
        parts = [part for part in value if part.get("type") in ("text", "output_text")]
        return "".join(text_of(part["text"]) for part in parts)
    if not isinstance(value, str):
        raise TypeError(f"text expected, not {type(value).__name__}")
    return value


def token_count(counts: object, *names: str) -> int:
    """The count under `names`, one inside the other; 0 where there is none worth the name."""
    value = counts
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value <= _MOST_TOKENS else 0


def join_object(head: Mapping[str, Any], **arrays: bytes) -> bytes:
    """A JSON object of `head` and of members that are JSON already."""
    members = [dump(head)[1:-1]] if head else []
    members += [b'"%s":%s' % (name.encode(), value) for name, value in arrays.items()]
    return b"{" + b",".join(members) + b"}"


@contextmanager
def parsing_reply() -> Iterator[None]:
    """Within it, an answer that can't be taken apart is the server's fault, and a BAD_RESPONSE."""
    try:
        yield
    except _PARSE_ERRORS as error:
        what = f"{type(error).__name__}: {error}"[:200]
        raise LLMError(
            LLMErrorKind.BAD_RESPONSE, f"the server sent a garbled answer ({what})"
        ) from error


def unknown_failure(origin: str, error: BaseException) -> LLMError:
    """For an exception that a provider does not expect: told, and logged for a report. What is
    meant for people already is raised as it is."""
    if isinstance(error, AgentError):
        raise error
    log.error("an unexpected failure at %s", origin, exc_info=error)
    return LLMError(
        LLMErrorKind.UNKNOWN,
        f"talking to {origin} failed: {type(error).__name__}: {error}",
        hint="the session's log has more; please report it",
    )


def text_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Lines that end in LF, CR or CRLF and in nothing else: the separators that Unicode knows may
    stand in JSON. Raises UnicodeDecodeError, and LLMError for one that is too long."""
    decoder = codecs.getincrementaldecoder("utf-8-sig")()
    pending: list[str] = []
    length = 0
    after_cr = False
    for chunk in chunks:
        text = decoder.decode(chunk)
        if after_cr and text:
            text = text.removeprefix("\n")
            after_cr = False
        after_cr = after_cr or text.endswith("\r")
        if "\r" in text:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        *whole, rest = text.split("\n")
        for line in whole:
            yield "".join([*pending, line])
            pending, length = [], 0
        pending.append(rest)
        length += len(rest)
        _check_length(length)
    decoder.decode(b"", final=True)
    yield "".join(pending)


def sent_events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a stream of server-sent events; `{}` stands for OpenAI's `[DONE]`.

    Read to its very end, as only then can the connection serve the next request.
    Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    data: list[str] = []
    length = 0
    for line in chain(lines, [""]):
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
            length += len(line)
            _check_length(length)
        elif not line and data:
            text, data, length = "\n".join(data).strip(), [], 0
            if text:
                yield {} if text == "[DONE]" else check_object(json.loads(text))


def _check_length(length: int) -> None:
    if length > _LARGEST_EVENT:
        raise LLMError(
            LLMErrorKind.BAD_RESPONSE,
            f"the server sent an event of more than {_LARGEST_EVENT / 1e6:.0f} MB",
        )


def checked_answer(items: Iterable[StreamItem]) -> Iterator[StreamItem]:
    """`items` less the idle signs of life of a server that has sent nothing else for too long.
    Raises LLMError when there is no Reply among them."""
    latest = time.monotonic()
    answered = False
    for item in items:
        answered = answered or isinstance(item, Reply)
        if not (isinstance(item, StillAlive) and item.idle):
            latest = time.monotonic()
        elif time.monotonic() - latest > _IDLE_S:
            continue
        yield item
    if not answered:
        raise broken_off()


def broken_off() -> LLMError:
    """A stream without its end mark is no answer, however much of it came."""
    return LLMError(LLMErrorKind.BAD_RESPONSE, "the answer broke off before its end")


def check_event_stream(content_type: str) -> None:
    if "text/event-stream" not in content_type:
        whole = "json" in content_type
        raise LLMError(
            LLMErrorKind.BAD_RESPONSE,
            f"the server answered with {content_type or 'no content type'} instead of a stream",
            hint="if the server can't stream, set stream = false for this provider"
            if whole
            else "is the base URL that of the API?",
        )


def check_object(data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise LLMError(
            LLMErrorKind.BAD_RESPONSE,
            "the server answered with something that is not a reply",
            hint="is the base URL that of the API?",
        )
    return data
