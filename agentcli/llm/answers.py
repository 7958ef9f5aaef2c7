"""Takes an answer apart into JSON objects, whatever form it arrives in, and refuses those that tell
of a failure.

What an answer is shows in its first line; its content type is not asked, as servers and gateways
get it wrong. A whole reply to a request for a stream is as good as a stream, and the other way
round.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from agentcli.errors import LLMError
from agentcli.events.texts import json_value
from agentcli.llm.wire_protocol import (
    CHECK_ADDRESS,
    StillAlive,
    StreamItem,
    bad_response,
    broken_off,
    check_object,
    tool_call,
    unique_calls,
)
from agentcli.messages import FinishReason, Reply, Usage

_IDLE_S = 600.0
"""How long signs of life count; if nothing else comes by then, the server counts as silent."""
_LONGEST_LINE = 8_000_000
"""Most characters of a line or a server-sent event."""
_LONGEST_WHOLE = 16_000_000
"""Most characters of an answer that is no stream."""
_SHOWN = 200
"""Characters shown of an answer that is no JSON."""
_ALIVE = re.compile("ping|alive|heartbeat")
"""What events are called that only keep the connection open."""
_NAMED_EVENT = re.compile("message_|content_block_|response[.]")
_EVENT_LINE = re.compile(r"(?:data|event|id|retry|error)?:")
_CALLED = re.compile(r"""(?:<function=|"name"\s*:\s*")([\w.-]+)""")
_ARGUMENTS = re.compile(r"\{.*\}", re.DOTALL)
_REPLY_PARTS = ("choices", "output", "content")
"""Members of which a whole reply has one, in the wire formats there are."""
COMMENT: Mapping[str, Any] = {"type": "ping"}
"""Stands for a comment in a stream. Every wire format takes an event that it does not know as a
sign of life; this one is Anthropic's own."""


def taken_apart(
    chunks: Iterable[bytes], content_type: str
) -> tuple[bool, Iterator[Mapping[str, Any]]]:
    """Return whether an answer is a stream, and its JSON objects; a whole answer has one.
    `content_type` is only shown to people. Raises LLMError, also while the objects are read, if
    the answer is something else or tells of a failure."""
    lines = text_lines(chunks)
    first = next((line for line in lines if line.strip()), "")
    if _EVENT_LINE.match(first):
        return True, sent_events(chain([first], lines))
    second = next((line for line in lines if line.strip()), "") if _is_json(first) else ""
    if _is_json(second):
        return True, (
            _checked_event(_event(line, False))
            for line in chain([first, second], lines)
            if line.strip()
        )
    return False, iter([_whole(chain([first, second], lines), content_type)])


def _whole(lines: Iterable[str], content_type: str) -> Mapping[str, Any]:
    kept: list[str] = []
    length = 0
    for line in lines:
        kept.append(line)
        length += len(line)
        _check_length(length, _LONGEST_WHOLE)
    text = "\n".join(kept).strip()
    if not text.startswith(("{", "[", "null")):
        form = content_type.partition(";")[0].strip() or "no content type"
        said = _told(text)[:_SHOWN]
        shown = f"{form}: {said}" if said else form if text else "nothing"
        raise bad_response(f"the server answered with {shown}", CHECK_ADDRESS)
    data = json.loads(text)
    parts = [data.get(part) for part in _REPLY_PARTS] if isinstance(data, Mapping) else []
    if _told(data) and (not any(parts) or _is_failure(data)):
        raise failure(data)
    return check_object(data)


def _is_failure(data: Mapping[str, Any]) -> bool:
    return bool(data.get("error")) or "error" in (data.get("type"), data.get("object"))


def _is_event(data: Mapping[str, Any]) -> bool:
    return "type" in data or data.get("object") == "chat.completion.chunk"


def _checked_event(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `data`, which is an event of a stream. Raises LLMError if it tells of a failure: as an
    error, or because it is no event at all and carries a message."""
    choices = data.get("choices")
    if _is_failure(data) or not (choices or _is_event(data) or not _told(data)):
        raise failure(data)
    if choices and isinstance(choices[0], Mapping) and choices[0].get("error"):
        raise failure(choices[0])
    return data


def text_lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield lines that end in LF, CR or CRLF only: JSON may contain the separators that Unicode
    knows. Raises UnicodeDecodeError, and LLMError for a line that is too long."""
    utf8 = codecs.getincrementaldecoder("utf-8-sig")()
    decoder = io.IncrementalNewlineDecoder(utf8, translate=True)
    pending: list[str] = []
    length = 0
    for chunk in chunks:
        *whole, rest = decoder.decode(chunk).split("\n")
        for line in whole:
            yield "".join([*pending, line])
            pending, length = [], 0
        pending.append(rest)
        length += len(rest)
        _check_length(length)
    yield from "".join([*pending, decoder.decode(b"", final=True)]).split("\n")


def sent_events(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """Yield the JSON objects of a stream of server-sent events; `{}` stands for OpenAI's `[DONE]`,
    COMMENT for a comment. Raises LLMError for one that tells of a failure.

    The stream is read to its very end, as only then can the connection serve the next request.
    Format: https://html.spec.whatwg.org/multipage/server-sent-events.html; llama.cpp's older
    servers end a stream with a line `error: {…}`.
    """
    data: list[str] = []
    length = 0
    kind = ""
    for line in chain(lines, [""]):
        if line.startswith("data:"):
            if len(data) == 1 and _is_json(data[0]):
                yield from _events(data, kind)
                data, length = [], 0
            data.append(line[5:].removeprefix(" ").removeprefix("data: "))
            length += len(line)
            _check_length(length)
        elif not line and data:
            yield from _events(data, kind)
            data, length, kind = [], 0, ""
        elif line.startswith(":"):
            yield COMMENT
        elif line.startswith("error:"):
            raise failure(line[6:])
        else:
            kind = line[6:].strip() if line.startswith("event:") else ""


def _is_json(text: str) -> bool:
    """Whether a line is an event of its own, where no empty line follows."""
    return text.startswith("{") and text.endswith("}") and bool(json_value(text))


def _events(data: list[str], kind: str) -> Iterator[Mapping[str, Any]]:
    """Yield the event that these lines of data are, if it is no mere sign of life."""
    text = "\n".join(data).strip()
    if text.strip('"').lower() == "[done]":
        yield {}
    elif text in ("null", "{}", "[]") or _ALIVE.search(kind):
        yield COMMENT
    elif text:
        event = _checked_event(_event(text, kind == "error"))
        # Some gateways leave out what Anthropic and OpenAI repeat in the data.
        yield {"type": kind, **event} if _NAMED_EVENT.match(kind) else event


def _told(answer: object) -> str:
    from agentcli.llm.error_bodies import told

    return told(answer)


def failure(error: object) -> LLMError:
    """Return the error for what an answer says instead of a reply."""
    from agentcli.llm.classify import stream_error

    return stream_error(error)


def _event(text: str, failed: bool) -> Mapping[str, Any]:
    """Return the event with this text. Raises LLMError if it is said to have `failed` or is plain
    text instead of JSON."""
    if failed:
        raise failure(text)
    try:
        return check_object(json.loads(text))
    except ValueError:
        if text.startswith(("{", "[")) or not _told(text):
            raise
        raise failure(text) from None


def _check_length(length: int, most: int = _LONGEST_LINE) -> None:
    if length > most:
        raise bad_response(
            f"the server sent more than {most / 1e6:.0f} MB without an end, too much for a reply"
        )


def checked_answer(items: Iterable[StreamItem]) -> Iterator[StreamItem]:
    """Yield `items`, dropping idle signs of life once the server has sent nothing else for too
    long. Raises LLMError when there is no Reply among them."""
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


def refused_reply(generation: str, model: str) -> Reply:
    """Return the reply that a server refused as it could not read the calls in it, or because they
    do not fit the tools (Groq's `tool_use_failed`, which quotes the reply as `failed_generation`).
    What is wrong with a call is left to the tools to say, as with any other; text without the name
    of a tool stays text."""
    from agentcli.llm.text_calls import json_calls

    calls, _ = json_calls(generation, 0)
    if not calls and (name := _CALLED.search(generation)):
        arguments = _ARGUMENTS.search(generation, name.end())
        calls = [tool_call("", name[1], arguments[0] if arguments else generation)]
    return Reply(
        text="" if calls else generation,
        tool_calls=unique_calls(calls, "call_"),
        finish_reason=FinishReason.TOOL_CALLS if calls else FinishReason.STOP,
        usage=Usage(),
        model=model,
        response_id="",
    )
