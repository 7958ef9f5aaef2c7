"""The interface of a wire format, and what all of them share."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Protocol, TypeVar
from uuid import uuid4

from agentcli.errors import AgentError, LLMError, LLMErrorKind
from agentcli.events.progress import Notice, ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.events.texts import compact_json, json_object, json_value
from agentcli.llm.provider import Traits
from agentcli.messages import Message, Reply, Request, ToolCall, common_start

if TYPE_CHECKING:
    from agentcli.llm.healing import Remedy

T = TypeVar("T")
_PARSE_ERRORS = (
    *(ValueError, RecursionError, TypeError, KeyError, IndexError, AttributeError, AssertionError),
)
"""Raised by code that parses an answer which does not have the expected form."""
_MOST_TOKENS = 1_000_000_000
"""Larger token counts are treated as invalid."""
CHECK_ADDRESS = "is the base URL that of the API?"
_VARIANT = re.compile(r"([-@:](\d{8}|\d{4}-\d\d-\d\d|latest|preview|beta|free|nitro|v\d+))+$")

_NUL = re.compile(rb"(?<!\\)((?:\\\\)*)\\u0000")

log = logging.getLogger(__name__)

_BYTES_PER_TOKEN = 1_000
"""Limit for a stream; servers write some 300 bytes around a token."""
_BYTES_BESIDE = 24_000_000
"""Additional bytes, because OpenAI's Responses repeat the whole reply four times."""
_LARGEST_WHOLE = 16_000_000
"""Most bytes of an answer that is not streamed."""


@dataclass(frozen=True, slots=True)
class StillAlive:
    """Something arrived that matters only as a sign of life. `idle`: it is no part of a reply, but
    shows that the server is working on one."""

    idle: bool = False


StreamItem = TextDelta | ReasoningDelta | ToolCallStarted | Notice | StillAlive | Reply


@dataclass(frozen=True)
class Endpoint:
    """Where a model is and how to access it. `api_key` None: the server needs none. `drop_params`
    are body members that the user wants never sent. `images` False: the model takes no images."""

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
    traits: Traits = field(default_factory=Traits)

    @property
    def name(self) -> str:
        return f"{self.provider}/{self.model}"

    @property
    def family(self) -> str:
        """The model's full name without its date or variant: what one of a family wrote for itself,
        the others can read."""
        return f"{self.provider}/{_VARIANT.sub('', self.model)}"


@dataclass
class ReplySize:
    """The maximum size of the next answer."""

    most_bytes: int = _LARGEST_WHOLE

    def expect(self, request: Request, *, stream: bool) -> None:
        streamed = _BYTES_BESIDE + _BYTES_PER_TOKEN * request.max_output_tokens
        self.most_bytes = streamed if stream else _LARGEST_WHOLE


class WireProtocol(Protocol):
    """One wire format at one endpoint; used from one thread at a time. What has a body here is for
    one that sends nothing."""

    def connect(self) -> None:
        """Import the SDK and build its client; called again after `abort`."""

    def answer(self, request: Request) -> Iterator[StreamItem]:
        """Yield the reply as it arrives, ending with a complete Reply. Raises what the SDK
        raises."""

    def body_bytes(self, request: Request) -> int:
        """Return the size of the body that `answer` would send; 0 when nothing is sent."""
        return 0

    def translate(self, error: Exception) -> LLMError:
        """Return what an exception of `answer` means; an unknown one is logged."""

    def models(self) -> list[str]:
        """Return the ids of the models that the endpoint offers. Raises LLMError."""

    def remedy(self, error: LLMError, request: Request) -> Remedy | None:
        """Return how to send `request` so that what the endpoint refused with `error` is not in it;
        None if the error does not tell."""
        return None

    def read_back(self, reply: Reply) -> Reply:
        """Return `reply`, whose calls were found in its text, with their arguments in the tools'
        own terms; `answer` has them so already."""
        return reply

    def learn(self, changes: Mapping[str, Any]) -> None:
        """Make requests with these changes of the endpoint's traits from now on."""

    def abort(self) -> None:
        """Drop the connection, from any thread; `answer` then fails soon."""


class PerMessage(Generic[T]):
    """What `convert` makes of each message, only once: messages are compared by identity, and as
    long as the conversation only grows at its end, old ones cost nothing."""

    def __init__(self, convert: Callable[[Message], T]) -> None:
        self._convert = convert
        self._messages: list[Message] = []
        self._made: list[T] = []
        self.unchanged = 0
        """How many messages of the last call were the same as in the call before."""

    def of(self, messages: Sequence[Message]) -> list[T]:
        self.unchanged = same = common_start(self._messages, messages)
        self._messages[same:] = messages[same:]
        self._made[same:] = map(self._convert, messages[same:])
        return self._made

    def forget(self) -> None:
        self._messages, self._made = [], []


def dump(value: Any) -> bytes:
    """Return compact JSON; lone surrogates and NULs, which providers refuse, become U+FFFD."""
    body = compact_json(value)
    return _NUL.sub("\\1\ufffd".encode(), body) if b"\\u0000" in body else body


def wire_name(name: str) -> str:
    """Return a tool name that every provider accepts back, whatever the model made up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64] or "unnamed"


def wire_arguments(raw: str) -> dict[str, Any]:
    """Return call arguments as the JSON object that providers expect, with invalid ones quoted
    inside."""

    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not JSON")

    try:
        values = json.loads(raw or "{}", parse_constant=refuse)
    except (ValueError, RecursionError):
        values = None
    return values if isinstance(values, dict) else {"invalid_arguments": raw}


def tool_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """Return a call as a server sent it. Arguments that are already an object, or JSON encoded
    twice, are corrected; anything else is left for the tool to refuse."""
    if not isinstance(arguments, str):
        arguments = "" if arguments is None else json.dumps(arguments, ensure_ascii=False)
    elif arguments.startswith('"') and isinstance(inner := json_value(arguments), str):
        arguments = arguments if json_object(inner) is None else inner
    return ToolCall(str(call_id or ""), str(name or ""), arguments)


def unique_calls(calls: Iterable[ToolCall], prefix: str) -> tuple[ToolCall, ...]:
    """Return `calls` with unique ids; those that the server gave are kept."""
    seen: set[str] = set()
    result = []
    for call in calls:
        call_id = call.id
        fits = call_id.isprintable() and 0 < len(call_id) <= 64
        if not fits or call_id in seen:
            call_id = f"{prefix}{uuid4().hex[:24]}"
        seen.add(call_id)
        result.append(replace(call, id=call_id))
    return tuple(result)


def text_of(value: object) -> str:
    """Return a piece of text, or the joined text of a list of parts. Raises TypeError."""
    if isinstance(value, Mapping):
        value = [value]
    if isinstance(value, list):
        parts = [part for part in value if part.get("type", "text") in ("text", "output_text")]
        return "".join(text_of(part["text"]) for part in parts)
    if not isinstance(value, str):
        raise TypeError(f"text expected, not {type(value).__name__}")
    return value


def token_count(counts: object, *names: str) -> int:
    """Return the count under the nested `names`; 0 where there is no valid one."""
    value = counts
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 <= value <= _MOST_TOKENS else 0


def join_object(head: Mapping[str, Any], **arrays: bytes) -> bytes:
    """Return a JSON object of `head` and members that are already JSON."""
    members = [dump(head)[1:-1]] if head else []
    members += [b'"%s":%s' % (name.encode(), value) for name, value in arrays.items()]
    return b"{" + b",".join(members) + b"}"


@contextmanager
def parsing_reply() -> Iterator[None]:
    """Raise BAD_RESPONSE if the block can't parse an answer, as that is the server's fault."""
    try:
        yield
    except _PARSE_ERRORS as error:
        what = f"{type(error).__name__}: {error}"[:200]
        raise bad_response(f"the server sent a garbled answer ({what})") from error


def unknown_failure(origin: str, error: BaseException) -> LLMError:
    """Return the error for an unexpected exception, which is also logged for a report. An
    AgentError, which is meant for people, is raised unchanged."""
    if isinstance(error, AgentError):
        raise error
    log.error("an unexpected failure at %s", origin, exc_info=error)
    return LLMError(
        LLMErrorKind.UNKNOWN,
        f"talking to {origin} failed: {type(error).__name__}: {error}",
        hint="details are in the session's log; please report this",
    )


def broken_off() -> LLMError:
    """Return the error for a stream without its end mark, which is no answer, however long it
    was."""
    return bad_response("the answer was cut off before its end")


def bad_response(message: str, hint: str = "") -> LLMError:
    return LLMError(LLMErrorKind.BAD_RESPONSE, message, hint=hint)


def check_object(data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise bad_response("the server answered with something that is not a reply", CHECK_ADDRESS)
    return data
