"""What the body of an error says, in whatever form a server or gateway puts it.

Forms that were seen: `{"error": {"message", "code", "type"}}` (OpenAI, Anthropic), the same in a
list (Gemini), `{"object": "error", "message"}` (vLLM, SGLang), `{"error": "text"}`,
`{"detail": "text"}` and `{"detail": [{"loc", "msg"}]}` (FastAPI), `{"code", "msg", "success"}`
(gateways from China), `{"base_resp": {"status_code", "status_msg"}}` (MiniMax), `{"error_msg"}`,
`{"title", "detail"}` (RFC 9457), and OpenRouter's, whose `metadata.raw` quotes the body of the
provider that it asked. None is asked for by name: whatever carries a message is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_MESSAGES = (
    *("error", "errors", "title", "message", "Message", "msg", "error_msg", "error_message"),
    *("errorMessage", "status_msg", "error_description", "detail", "details", "base_resp"),
    *("exception", "fault", "faultstring", "reason", "innererror"),
)
"""Members that carry a message, or an object with one; the more general come first."""
_CODES = ("code", "type", "status", "status_code", "error_code", "errcode", "err_code")
_NAMED = ("param", "parameter", "field", "pointer", "instance")
_WAITS = ("retryDelay", "retry_after", "retry_after_ms")
_TAG = re.compile(r"<[!?a-z]", re.IGNORECASE)
_JSON = re.compile(r"^\s*(?=[\[{])|(?=\{\s*\")")
_DECODER = json.JSONDecoder()
_DEEPEST = 8
_MOST_ITEMS = 5
_LONGEST_MESSAGE = 500
"""Most characters kept of a provider's message."""
_LONGEST_SAID = 20_000


@dataclass
class ErrorBody:
    """What a body says. `codes` are the words and numbers that name the kind of error, `wait` is
    how long it says to wait, in its own words. `generation` is what the model wrote as a call that
    the server could not read (Groq)."""

    messages: list[str] = field(default_factory=list)
    codes: list[str] = field(default_factory=list)
    wait: str = ""
    generation: str = ""
    named: list[str] = field(default_factory=list)
    """The parameters that the body names as the cause."""
    is_empty: bool = False

    @property
    def said(self) -> str:
        """All messages, codes that are words, and named parameters as one text. The request, which
        some servers repeat in the body of an error, is not in it."""
        words = [code for code in self.codes if not code.isdecimal()]
        named = [f"'{name.strip('/')}'" for name in self.named]
        return " ".join([*self.messages, *words, *named])[:_LONGEST_SAID].replace("\\", "")

    @property
    def message(self) -> str:
        """The messages as one line, cut to a length for people; empty if there is none."""
        words = " ".join(": ".join(self.messages).split())
        if len(words) <= _LONGEST_MESSAGE:
            return words
        # Cut between words: half a secret could no longer be recognised as one.
        return words[:_LONGEST_MESSAGE].rpartition(" ")[0] + " …"


def read_body(body: object) -> ErrorBody:
    """Return what the body of an error says; nothing for a page of HTML."""
    said = body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)
    found = ErrorBody(is_empty=not said)
    for text in _texts(body, found, 0):
        if not any(text in other for other in found.messages):
            found.messages = [other for other in found.messages if other not in text] + [text]
    return found


def told(body: object) -> str:
    """Return the message that a body carries, in one line; empty if there is none."""
    return read_body(body).message


def _texts(value: object, found: ErrorBody, depth: int) -> Iterator[str]:
    """Yield the messages in `value`, and keep what else it says in `found`."""
    if depth > _DEEPEST:
        return
    if isinstance(value, str):
        before, inner = _quoted(value)
        if inner is not None:
            texts = list(_texts(inner, found, depth + 1))
            if texts or inner:
                yield f"{before}{': '.join(texts)}" if texts else value.strip()
        elif (text := value.strip()) and not _TAG.match(text):
            yield text
    elif isinstance(value, list):
        for item in value[:_MOST_ITEMS]:
            yield from _texts(item, found, depth + 1)
    elif isinstance(value, Mapping):
        yield from _texts_of_object(value, found, depth)


def _texts_of_object(value: Mapping[str, Any], found: ErrorBody, depth: int) -> Iterator[str]:
    found.codes += [str(value[name]) for name in _CODES if isinstance(value.get(name), str | int)]
    found.named += [value[name] for name in _NAMED if isinstance(value.get(name), str)]
    found.generation = found.generation or str(value.get("failed_generation") or "")
    for name in _WAITS:
        if isinstance(value.get(name), str | int | float):
            found.wait = f"{value[name]}ms" if name.endswith("_ms") else str(value[name])
    metadata = value.get("metadata")
    if isinstance(metadata, Mapping) and (
        quoted := list(_texts(metadata.get("raw"), found, depth + 1))
    ):
        yield f"{metadata.get('provider_name') or 'the provider'}: {': '.join(quoted)}"
        return
    place = value.get("loc")
    if isinstance(place, list) and isinstance(value.get("msg"), str):
        inside = place[1:] if place[:1] == ["body"] else place
        yield f"{'.'.join(map(str, inside))}: {value['msg']}".removeprefix(": ")
        return
    for name in _MESSAGES:
        if name in value:
            yield from _texts(value[name], found, depth + 1)


def _quoted(text: str) -> tuple[str, object]:
    """Return the JSON that `text` is or that it quotes, and the text before it; None for no JSON.
    LiteLLM's proxy quotes a provider's body in its own words."""
    quoted = _JSON.search(text)
    if not quoted:
        return text, None
    before = text[: quoted.end()].lstrip()
    try:
        value, end = _DECODER.raw_decode(text, quoted.end())
    except (ValueError, RecursionError):
        return text, None
    return (before, value) if before or not text[end:].strip() else (text, None)
