"""What a wire format must do, and what all of them share."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

from agentcli.errors import ConfigError, LLMError, LLMErrorKind
from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.messages import Message, Reply, Request, ToolCall

GARBLED = (
    ValueError,
    RecursionError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    AssertionError,
)
"""What taking apart an answer raises when it does not have the form it should have."""

_KEEP_ALIVE_S = 300.0
"""A connection should outlast a command; one that the server has closed is noticed and replaced."""


@dataclass(frozen=True, slots=True)
class StillAlive:
    """Something came from the server that is of no other interest."""


StreamItem = TextDelta | ReasoningDelta | ToolCallStarted | StillAlive | Reply


@dataclass(frozen=True)
class Endpoint:
    """Where a model is and how to get in. `api_key` None: the server wants none."""

    provider: str
    model: str
    base_url: str
    api_key: str | None
    headers: Mapping[str, str] = field(default_factory=dict)
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    stream: bool = True
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 120.0


class Provider(Protocol):
    """One wire format at one endpoint; used from one thread at a time."""

    def connect(self) -> None:
        """Import the SDK and build its client; called again after `abort`."""

    def answer(self, request: Request) -> Iterator[StreamItem]:
        """The reply as it comes, a complete Reply last. Raises what the SDK raises."""

    def translate(self, error: Exception) -> LLMError:
        """What an exception of `answer` or `models` means. Raises it again when unknown."""

    def models(self) -> list[str]:
        """Ids of the models the endpoint offers."""

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
        same = 0
        for old, new in zip(self._messages, messages, strict=False):
            if old is not new:
                break
            same += 1
        self.unchanged = same
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


def wire_arguments(raw: str) -> dict[str, Any]:
    """Call arguments as the JSON object that providers want back, broken ones quoted inside."""
    try:
        values = json.loads(raw or "{}")
    except (ValueError, RecursionError):
        values = None
    return values if isinstance(values, dict) else {"invalid_arguments": raw}


def unique_calls(calls: Iterable[ToolCall], prefix: str) -> tuple[ToolCall, ...]:
    """`calls` with ids of a form every provider takes back, none empty, none twice."""
    seen: set[str] = set()
    result = []
    for call in calls:
        call_id = call.id
        if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", call_id) or call_id in seen:
            call_id = f"{prefix}{uuid4().hex[:24]}"
        seen.add(call_id)
        result.append(ToolCall(call_id, call.name, call.arguments))
    return tuple(result)


def join_object(head: Mapping[str, Any], **arrays: bytes) -> bytes:
    """A JSON object of `head` and of members that are JSON already."""
    members = [dump(head)[1:-1]] if head else []
    members += [b'"%s":%s' % (name.encode(), value) for name, value in arrays.items()]
    return b"{" + b",".join(members) + b"}"


def http_client(endpoint: Endpoint) -> Any:
    """The HTTP client both SDKs are given: no redirects, so that neither prompt nor key ever
    follows one to another place; certificates are loaded only where TLS is spoken."""
    import httpx2

    timeout = httpx2.Timeout(endpoint.read_timeout_s, connect=endpoint.connect_timeout_s)
    try:
        return httpx2.Client(
            follow_redirects=False,
            limits=httpx2.Limits(keepalive_expiry=_KEEP_ALIVE_S),
            timeout=timeout,
            verify=not endpoint.base_url.startswith("http://"),
        )
    except (ImportError, ValueError) as error:
        raise ConfigError(
            f"no connection can be made to {endpoint.base_url}: {error}",
            hint="look at HTTP_PROXY, HTTPS_PROXY and ALL_PROXY",
        ) from error


def sent_events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The JSON objects of a stream of server-sent events; `{}` stands for OpenAI's `[DONE]`.

    Read to its very end, as only then can the connection serve the next request.
    Format: https://html.spec.whatwg.org/multipage/server-sent-events.html
    """
    data: list[str] = []
    for line in lines:
        if line.startswith("data:"):
            data.append(line[5:].removeprefix(" "))
        elif not line and data:
            text, data = "\n".join(data), []
            yield {} if text.strip() == "[DONE]" else check_object(json.loads(text))


def broken_off() -> LLMError:
    """A stream without its end mark is no answer, however much of it came."""
    return LLMError(LLMErrorKind.BAD_RESPONSE, "the answer broke off before its end")


def check_event_stream(content_type: str) -> None:
    if "text/event-stream" not in content_type:
        raise LLMError(
            LLMErrorKind.BAD_RESPONSE,
            f"the server answered with {content_type or 'no content type'} instead of a stream",
            hint="is the base URL that of the API?",
        )


def check_object(data: object) -> Mapping[str, Any]:
    if not isinstance(data, Mapping):
        raise LLMError(
            LLMErrorKind.BAD_RESPONSE,
            "the server answered with something that is not a reply",
            hint="is the base URL that of the API?",
        )
    return data
