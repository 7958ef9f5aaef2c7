"""Takes an answer apart into JSON objects and puts together what a stream sends in pieces.

What an answer is shows in its first line; its content type is not asked, as servers and gateways
get it wrong. A whole reply to a request for a stream is as good as a stream, and the other way
round. Servers also differ in how they label pieces, so a call is recognised by its identity and not
by its position, and members are merged by their form and not by a list of names.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
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
from agentcli.messages import FinishReason, Reply, ToolCall, Usage

_IDLE_S = 600.0
"""How long signs of life count; if nothing else comes by then, the server counts as silent."""
_LONGEST_LINE = 8_000_000
"""Most characters of a line or a server-sent event."""
_LONGEST_WHOLE = 16_000_000
"""Most characters of an answer that is no stream."""
_ALIVE = re.compile("ping|alive|heartbeat")
"""What events are called that only keep the connection open."""
_NAMED_EVENT = re.compile("message_|content_block_|response[.]")
_EVENT_LINE = re.compile(r"(?:data|event|id|retry|error)?:")
_CALLED = re.compile(r"""(?:<function=|"name"\s*:\s*")([\w.-]+)""")
_ARGUMENTS = re.compile(r"\{.*\}", re.DOTALL)
COMMENT: Mapping[str, Any] = {"type": "ping"}
"""Stands for a comment in a stream. Every wire format takes an event that it does not know as a
sign of life; this one is Anthropic's own."""
_WHOLE = re.compile(
    r"(^|_)(id|type|format|role|name|status|phase|model|index|signature|opaque|data)$|^encrypted"
)
"""Members that arrive whole. Other text grows piece by piece."""
_SEALS = ("signature", "data", "encrypted_content")
"""Members that end a part: text after one belongs to another part."""
_DECODER = json.JSONDecoder(strict=False)


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
        said = _message_of(text)[:200]
        shown = f"{form}: {said}" if said else form if text else "nothing"
        raise bad_response(f"the server answered with {shown}", CHECK_ADDRESS)
    data = json.loads(text)
    # A whole reply has one of these members, in the wire formats there are.
    names = ("choices", "output", "content") if isinstance(data, Mapping) else ()
    parts = [data.get(name) for name in names]
    if _message_of(data) and (not any(parts) or _is_failure(data)):
        raise failure(data)
    return check_object(data)


def _is_failure(data: Mapping[str, Any]) -> bool:
    return bool(data.get("error")) or "error" in (data.get("type"), data.get("object"))


def _checked_event(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return `data`, which is an event of a stream. Raises LLMError if it tells of a failure: as an
    error, or because it is no event at all and carries a message."""
    choices = data.get("choices")
    is_event = "type" in data or data.get("object") == "chat.completion.chunk"
    if _is_failure(data) or not (choices or is_event or not _message_of(data)):
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


def _message_of(answer: object) -> str:
    """Return the message that an answer carries, in one line; empty if there is none."""
    from agentcli.llm.failures import read_body

    return read_body(answer).message


def failure(error: object) -> LLMError:
    """Return the error for what an answer says instead of a reply."""
    from agentcli.llm.failures import stream_error

    return stream_error(error)


def _event(text: str, failed: bool) -> Mapping[str, Any]:
    """Return the event with this text. Raises LLMError if it is said to have `failed` or is plain
    text instead of JSON."""
    if failed:
        raise failure(text)
    try:
        return check_object(json.loads(text))
    except ValueError:
        if text.startswith(("{", "[")) or not _message_of(text):
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


def merge(into: dict[str, Any], piece: Mapping[str, Any]) -> None:
    """Add the members of `piece` to `into`; null adds nothing."""
    for name, value in piece.items():
        if value is not None:
            into[name] = _merged(name, into.get(name), value)


def _merged(name: str, old: Any, new: Any) -> Any:
    if isinstance(old, str) and isinstance(new, str):
        return (new or old) if _WHOLE.search(name) else old + new
    if isinstance(old, dict) and isinstance(new, Mapping):
        merge(old, new)
        return old
    if isinstance(new, Mapping):
        fresh: dict[str, Any] = {}
        merge(fresh, new)
        return fresh
    if isinstance(new, list):
        parts = old if isinstance(old, list) else []
        for part in new:
            _merge_part(parts, part)
        return parts
    return new


def _merge_part(parts: list[Any], piece: Any) -> None:
    """Add a piece of a list: to the part that it continues, or as a new part."""
    if not isinstance(piece, Mapping):
        parts.append(piece)
        return
    part = next((p for p in reversed(parts) if _continues(p, piece, p is parts[-1])), None)
    if part is None:
        part = {}
        parts.append(part)
    merge(part, piece)


def _continues(part: Any, piece: Mapping[str, Any], is_last: bool) -> bool:
    if not isinstance(part, dict):
        return False
    for name in ("type", "id", "index"):
        ours, theirs = part.get(name), piece.get(name)
        if ours is not None and theirs is not None and ours != theirs:
            return False
    if piece.get("index") is not None:
        return bool(part.get("index") == piece["index"])
    return is_last and not any(part.get(name) for name in _SEALS)


@dataclass
class _OpenCall:
    """A call of which pieces may still arrive."""

    index: object
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list)
    value: object = None
    """The arguments, if they arrived as something other than text."""
    beside: dict[str, Any] = field(default_factory=dict)
    """Members that are not ours to make."""

    @property
    def is_complete(self) -> bool:
        ended = bool(self.text) and self.text[-1].rstrip().endswith("}")
        return self.value is not None or (ended and bool(_objects("".join(self.text))))

    def finished(self) -> ToolCall:
        arguments = self.value if self.value is not None else whole_arguments(self.text)
        return tool_call(self.id, self.name, arguments)


@dataclass
class OpenCalls:
    """The calls of a reply to Chat Completions, in the order in which they began."""

    calls: list[_OpenCall] = field(default_factory=list)

    def take(self, pieces: Sequence[Mapping[str, Any]]) -> list[str]:
        """Add the pieces of one chunk; return the names of the calls that begin with them."""
        named = []
        for position, piece in enumerate(pieces):
            function = piece.get("function") or {}
            if not isinstance(function, Mapping):
                function = {}
            flat = function or piece
            name, arguments = str(flat.get("name") or ""), flat.get("arguments")
            call = self._of(piece, name, arguments, position, alone=len(pieces) == 1)
            if name and not call.name:
                named.append(name)
            call.id = call.id or str(piece.get("id") or "")
            call.name = call.name or name
            if isinstance(arguments, str):
                call.text.append(arguments)
            elif arguments:
                call.value = arguments
            _merge_beside(call.beside, piece, function)
        return named

    def finished(self) -> list[ToolCall]:
        return [call.finished() for call in self.calls]

    def beside(self) -> list[dict[str, Any]]:
        """Return for each call its members that are not ours to make; nothing if none has any."""
        members = [call.beside for call in self.calls]
        return members if any(members) else []

    def _of(
        self, piece: Mapping[str, Any], name: str, arguments: object, position: int, *, alone: bool
    ) -> _OpenCall:
        """Return the call that a piece belongs to, a new one if it begins one."""
        index, call_id = piece.get("index"), str(piece.get("id") or "")
        if index is None:
            found = self.calls[-1] if self.calls and (alone or not name) else None
            if not alone and not name and not call_id and position < len(self.calls):
                found = self.calls[position]
        else:
            found = next((c for c in reversed(self.calls) if c.index == index), None)
            if found is None and not (name or call_id) and self.calls:
                found = self.calls[-1]
        if call_id and (found is None or found.id != call_id):
            same = [
                call
                for call in self.calls
                if call.id == call_id
                and index in (None, call.index)
                and not _begins_another(call, name, arguments)
            ]
            # Some gateways give each piece an id of its own.
            is_open = found is not None and not (found.id and found.is_complete)
            late = found if is_open and not name else None
            found = same[-1] if same else late
        elif found is not None and _begins_another(found, name, arguments):
            found = None
        if found is None:
            found = _OpenCall(index)
            self.calls.append(found)
        return found


def _begins_another(call: _OpenCall, name: str, arguments: object) -> bool:
    """Whether a named piece at the place of `call` is another call, not a repetition of its
    head."""
    if not name or not call.name:
        return False
    if name != call.name:
        return True
    repeated = isinstance(arguments, str) and arguments == "".join(call.text)
    return bool(arguments) and call.is_complete and not repeated


def _merge_beside(
    beside: dict[str, Any], piece: Mapping[str, Any], function: Mapping[str, Any]
) -> None:
    own = {"index", "id", "type", "function", *(() if function else ("name", "arguments"))}
    merge(beside, {name: value for name, value in piece.items() if name not in own})
    inner = {n: v for n, v in function.items() if n not in ("name", "arguments") and v is not None}
    if inner:
        merge(beside, {"function": inner})


def whole_arguments(pieces: Sequence[str]) -> str:
    """Return arguments from their pieces. Where a server repeats them whole, repeats in each piece
    what came before, or sends `{}` before the real ones, what remains is one object."""
    text = "".join(pieces)
    objects = _objects(text)
    grows = all(new.startswith(old) for old, new in pairwise(pieces))
    if not objects and grows and pieces and _objects(pieces[-1]):
        return pieces[-1]
    if len(objects) < 2:
        return text
    said = [each for each in objects if each]
    if all(each == said[0] for each in said):
        return json.dumps(said[0] if said else {}, ensure_ascii=False)
    return text


def _objects(text: str) -> list[dict[str, Any]]:
    """Return the JSON objects that `text` consists of; none if it is anything else."""
    found = []
    position = 0
    while rest := text[position:].lstrip():
        try:
            value, length = _DECODER.raw_decode(rest)
        except (ValueError, RecursionError):
            return []
        if not isinstance(value, dict):
            return []
        found.append(value)
        position = len(text) - len(rest) + length
    return found
