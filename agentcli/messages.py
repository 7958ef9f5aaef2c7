"""Provider-neutral values: what goes to a model and what comes back.

Nothing here knows about wire formats, events or tools; any other module may import this one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

SLACK_CHARS = 3_000
"""A text that is longer than its limit by less than this is not cut: a note about the cut and a
call for the rest would cost more."""


def lines_before(text: str, size: int) -> str:
    """Return at most `size` characters from the start of `text`; cut within a line only if it is
    long."""
    size = min(size, len(text))
    cut = text.rfind("\n", 0, size) + 1
    return text[: cut if cut > size // 2 else size]


def lines_after(text: str, size: int) -> str:
    """Return at most `size` characters from the end of `text`, cut as by `lines_before`."""
    size = min(size, len(text))
    begin = len(text) - size
    cut = text.find("\n", begin) + 1
    return text[cut if 0 < cut <= begin + size // 2 else begin :]


class Role(StrEnum):
    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class ToolChoice(StrEnum):
    """Whether a reply may, must or must not contain tool calls."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"


class FinishReason(StrEnum):
    """Why the model stopped. With anything but STOP and TOOL_CALLS the reply is unusable."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"
    CONTENT_FILTER = "content_filter"
    PAUSED = "paused"
    """A server that works by itself wants to be asked to go on."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """What the model asked for; `arguments` is the JSON text as sent. Where they had to be mended
    before they could be put in the tool's own terms, `arguments_before` is what the model wrote."""

    id: str
    name: str
    arguments: str
    arguments_before: str | None = None


@dataclass(frozen=True, slots=True)
class ToolSchema:
    """A tool as described to the model; `parameters` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ImageLimits:
    """The largest image to show a model: pixels of the longer side, and pixels in total."""

    side: int = 2_000
    pixels: int = 4_000_000


@dataclass(frozen=True, slots=True)
class ProviderData:
    """Opaque reply data (thinking signatures, encrypted reasoning) in the provider's own form.

    It goes back untouched, and only to the `provider` that wrote it.
    """

    provider: str
    items: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """One entry of the conversation.

    Compared by identity: a message is built once, and providers cache its wire form per object.
    """

    role: Role
    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    is_error: bool = False
    image_urls: tuple[str, ...] = ()
    provider_data: ProviderData | None = None
    prefix_changed: bool = False
    """Whether what stands before a reply is no longer what it was written after."""

    @classmethod
    def system_message(cls, content: str) -> Message:
        return cls(Role.SYSTEM, content)

    @classmethod
    def user_message(cls, content: str, image_urls: Iterable[str] = ()) -> Message:
        return cls(Role.USER, content, image_urls=tuple(image_urls))

    @classmethod
    def assistant_message(cls, content: str) -> Message:
        return cls(Role.ASSISTANT, content)

    @classmethod
    def from_tool_calls(
        cls,
        tool_calls: Iterable[ToolCall],
        content: str = "",
        provider_data: ProviderData | None = None,
        *,
        prefix_changed: bool = False,
    ) -> Message:
        return cls(
            Role.ASSISTANT,
            content,
            tool_calls=tuple(tool_calls),
            provider_data=provider_data,
            prefix_changed=prefix_changed,
        )

    @classmethod
    def tool_message(
        cls,
        content: str,
        tool_call_id: str,
        *,
        is_error: bool = False,
        image_urls: Iterable[str] = (),
    ) -> Message:
        return cls(
            Role.TOOL,
            content,
            tool_call_id=tool_call_id,
            is_error=is_error,
            image_urls=tuple(image_urls),
        )


def without(what: str, message: Message) -> Message:
    """Return `message` without the `reasoning` or `images` in it, when all messages go without."""
    if what == "reasoning" and message.provider_data is not None:
        return replace(message, provider_data=None)
    if what == "images" and message.image_urls:
        note = "[what was shown here can't be shown to this model]"
        return replace(message, content=f"{message.content}\n{note}".strip(), image_urls=())
    return replace(message, prefix_changed=True) if message.provider_data else message


def common_start(old: list[Message], new: Sequence[Message]) -> int:
    """Return how many messages `old` and `new` have in common at the start. Messages are compared
    by identity, first all of `old` at once, because a conversation mostly grows at its end."""
    if old == list(new[: len(old)]):
        return len(old)
    pairs = enumerate(zip(old, new, strict=False))
    return next((n for n, (was, is_) in pairs if was is not is_), min(len(old), len(new)))


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more requests; `prompt_tokens` includes the cached ones."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @classmethod
    def of(cls, counts: Mapping[str, Any]) -> Usage:
        """Return the tokens in `counts`, where some may be missing or unknown."""
        return cls(*[int(counts.get(name) or 0) for name in cls.__slots__])

    def __add__(self, other: Usage) -> Usage:
        return Usage(*[getattr(self, n) + getattr(other, n) for n in self.__slots__])


@dataclass(frozen=True, slots=True)
class Reply:
    """A complete answer of a model; a partial one never becomes a Reply.

    `latency_s` and `time_to_first_token_s` are seconds since the request was sent; `cost_usd` is
    None when the price of the model is unknown.
    """

    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage
    model: str
    response_id: str
    reasoning: str = ""
    provider_data: ProviderData | None = None
    latency_s: float = 0.0
    time_to_first_token_s: float = 0.0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """A request to a model. `session_id` lets providers keep a prompt cache per session;
    `estimated_tokens` is roughly how much of the window the prompt takes, 0 if unknown."""

    messages: tuple[Message, ...] | list[Message]
    tools: tuple[ToolSchema, ...] = ()
    tool_choice: ToolChoice = ToolChoice.AUTO
    max_output_tokens: int = 16_384
    session_id: str = ""
    effort: str | None = None
    temperature: float | None = None
    estimated_tokens: int = 0
    budget_usd: float | None = None
    """The most that the reply may cost; None: no limit."""
    reserve_tokens: int = 0
    """Keep enough of the budget for one more call with this many output tokens; 0: nothing."""

    @property
    def has_images(self) -> bool:
        return any(message.image_urls for message in self.messages)
