"""What a reply's text consists of: thinking, calls as text, and what is said to the person.

A call as text counts as one if its block stands by itself: at the start of a line or behind a
sentence, with no sentence going on behind it, and not in a code fence or between backticks. A reply
that is nothing but calls needs no marks around them, and may have them in a fence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NamedTuple

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.call_dialects import BARE, DIALECTS, PLAIN_MARKS, THOUGHTS, Dialect
from agentcli.llm.text_calls import Tools, named_call, python_calls, read_block
from agentcli.messages import ToolCall

_BARE_MEMBERS = {"name", "function", "arguments", "parameters", "args", "input", "type", "id"}
_DECODER = json.JSONDecoder(strict=False)
_FENCED = re.compile(
    r"\s*```(?:json|xml|tool_\w+)?[^\S\n]*\n(.*?)\n[^\S\n]*```[^\S\n]*(?=\n|\Z)", re.DOTALL
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)")
_QUOTING = re.compile(r"(?:>|[-*+#|]|\d+[.)])*")
_GOES_ON = re.compile(r"[a-z,.;:!?)\]}\"'`]")
_NAMED = re.compile(r'"name"\s*:\s*"([^"\\]{1,64})"')
_NOT_SAID = re.compile(
    r"\A\s*(?:<\|start\|>assistant)?(?:<\|channel\|>\w+(?: \w+)?<\|message\|>|"
    r"<\|open\|>response<\|sep\|>)|(?:\s*<\|(?:return|end|call|im_end|eot_id|eom_id)\|>|"
    r"\s*<\|close\|>(?:response|message)<\|sep\|>|\s*<turn\|>)+\s*\Z"
)
"""Marks of channels and ends around what is said."""
_MAY_BE_BARE = re.compile(
    r"""(?:```\w*\s*)?(?:[\[{\s]*"(?:name|function|arguments|parameters|type|"""
    r"""id)"|<|\[TOOL_CALLS\]|call:\w|\[?\s*(?:\w+\.)*(?P<name>\w+)\()"""
)
_ENOUGH = 48
"""Characters from which it shows whether a reply that begins like one is nothing but calls."""


class Thought(NamedTuple):
    """Thinking, what comes after it, and its last mark if only that one was there."""

    thinking: str
    rest: str
    only_mark: str = ""


class Found(NamedTuple):
    """Calls in a text, without ids, in the form of `dialect`, and what is said around them."""

    said: str
    calls: list[ToolCall]
    dialect: str = ""
    is_last: bool = True
    """Whether nothing is said behind the calls."""


class _Block(NamedTuple):
    start: int
    end: int
    calls: list[ToolCall]
    dialect: str


@cache
def _marks() -> re.Pattern[str]:
    begins = {begin for dialect in DIALECTS for begin in dialect.begins}
    return re.compile("|".join(map(re.escape, sorted(begins, key=len, reverse=True))))


@cache
def _longest_mark() -> int:
    return max(len(begin) for dialect in DIALECTS for begin in dialect.begins)


def split_thought(text: str) -> Thought:
    """Take the thinking off the beginning of a text. Its first mark may be missing, as some chat
    templates have written that already."""
    thoughts: list[str] = []
    rest = text
    while opener := next((mark for mark in THOUGHTS if rest.lstrip().startswith(mark)), ""):
        thought, _, rest = rest.lstrip()[len(opener) :].partition(THOUGHTS[opener])
        thoughts.append(thought.strip())
    if thoughts:
        return Thought("\n\n".join(filter(None, thoughts)), rest.lstrip())
    for opener, closer in THOUGHTS.items():
        if closer not in text:
            continue
        thought, _, rest = text.partition(closer)
        begun = opener not in thought and thought.rstrip(" ")[-1:] in ("", *"\n.!?")
        if begun and rest[:1] in ("", "\n") and not _is_in_fence(thought):
            return Thought(thought.strip(), rest.lstrip(), closer)
    return Thought("", text)


def find_calls(text: str, tools: Tools, dialects: Collection[str]) -> Found:
    """Return the calls in `text` that are written in one of `dialects`. One that can't be read has
    its text as arguments, and a name if one can be made out."""
    fenced = _FENCED.findall(text) if text.lstrip().startswith("```") else []
    inner = "\n".join(fenced) if fenced and not _FENCED.sub("", text).strip() else ""
    calls = _bare(inner, tools, dialects) or _marked(inner, tools, dialects).calls
    if calls and all(call.name in tools for call in calls):
        return Found("", calls, BARE)
    found = _marked(text, tools, dialects)
    if not found.calls and (calls := _bare(text, tools, dialects)):
        return Found("", calls, BARE)
    return found if found.calls else Found(_said(text), [])


def _marked(text: str, tools: Tools, dialects: Collection[str]) -> Found:
    said: list[str] = []
    calls: list[ToolCall] = []
    names: list[str] = []
    start = 0
    while block := _next_block(text, start, tools, dialects):
        said.append(text[start : block.start])
        calls += block.calls
        names.append(block.dialect)
        start = block.end
    said.append(text[start:])
    parts = [_said(part).strip() for part in said]
    dialect = names[0] if names else ""
    return Found("\n\n".join(filter(None, parts)), calls, dialect, not parts[-1])


def _said(text: str) -> str:
    return _NOT_SAID.sub("", text) if "|>" in text else text


def _next_block(text: str, start: int, tools: Tools, dialects: Collection[str]) -> _Block | None:
    """Return the next block of calls from `start` on, which is where the one before ends."""
    if not _marks().search(text, start):
        return None
    position, fence = start, ""
    while position < len(text):
        line_end = text.find("\n", position) + 1 or len(text)
        line = text[position:line_end]
        marks = () if fence else _marks().finditer(line)
        for mark in marks:
            before, may_begin = line[: mark.start()], _may_begin(line, mark)
            alone = may_begin and not before.strip()
            block = _block_at(text, position + mark.start(), mark[0], tools, dialects, alone)
            if block is None:
                continue
            if may_begin and not _is_quoted(text, block, before, mark[0]):
                return block
            position = block.end
            break
        else:
            fence = fence_after(line, fence)
            position = line_end
    return None


def marks_in(line: str, start: int = 0) -> Iterator[re.Match[str]]:
    """Yield the marks in a line, from `start` on, at which calls may begin."""
    return (mark for mark in _marks().finditer(line, start) if _may_begin(line, mark))


def _may_begin(line: str, mark: re.Match[str]) -> bool:
    """Whether what stands before a mark in its line lets calls begin: no quotation, item of a list
    or unfinished sentence. Marks of a model's own vocabulary may follow any word."""
    before = line[: mark.start()].strip()
    if _QUOTING.fullmatch(before) or before.startswith(">") or before.count("`") % 2:
        return not before
    is_special = mark[0][:2] in ("<|", "<｜", "]<", "[T")  # noqa: RUF001
    return is_special or before[-1:] in tuple(".!?:…")


def fence_after(line: str, fence: str) -> str:
    """Return the code fence that is open after `line`; `fence` was open before it."""
    found = _FENCE.match(line)
    if not found:
        return fence
    if not fence:
        return found[1]
    closes = found[1].startswith(fence) and not found[2].strip()
    return "" if closes else fence


def _is_in_fence(text: str) -> bool:
    fence = ""
    for line in text.splitlines():
        fence = fence_after(line, fence)
    return bool(fence)


def _is_quoted(text: str, block: _Block, before: str, mark: str) -> bool:
    """Whether a sentence goes on behind the block, or more text behind one that ends a reply."""
    behind = text[block.end :]
    if mark.startswith("```"):
        return bool(behind.strip())
    rest = behind.partition("\n")[0].strip()
    return bool(rest if before.strip() else _GOES_ON.match(rest))


def _block_at(
    text: str, start: int, mark: str, tools: Tools, dialects: Collection[str], may_be_broken: bool
) -> _Block | None:
    """Return the block of calls that begins with the mark at `start`."""
    for dialect in _beginning_with(mark, dialects):
        calls, end = read_block(dialect, text, start, tools)
        if calls:
            return _Block(start, end, calls, dialect.name)
    return _broken(text, start, mark, dialects) if may_be_broken else None


def _broken(text: str, start: int, mark: str, dialects: Collection[str]) -> _Block | None:
    """Return what stands behind a mark and can't be read, as a call; None if the mark itself is
    what the text is about."""
    spoken = _beginning_with(mark, dialects)
    if not spoken or mark in PLAIN_MARKS:
        return None
    marks = re.compile(rf"\s*(?:{spoken[0].marks})")
    opened = marks.match(text, start)
    begin = opened.end() if opened else start + len(mark)
    if re.match(r"[^\S\n]+[a-z]|[`\"']", text[begin:]):
        return None
    closing = marks.search(text, begin)
    end, after = closing.span() if closing else (len(text), len(text))
    raw = text[begin:end].strip()
    name = _NAMED.search(raw)
    return _Block(start, after, [ToolCall("", name[1] if name else "", raw)], spoken[0].name)


def _beginning_with(mark: str, dialects: Collection[str]) -> list[Dialect]:
    return [each for each in DIALECTS if mark in each.begins and each.name in dialects]


def _bare(text: str, tools: Tools, dialects: Collection[str]) -> list[ToolCall]:
    """Return the calls that the whole text consists of, in JSON or Python without marks."""
    text = text.strip()
    if BARE not in dialects or not text:
        return []
    if text[0] in "[{" and (values := _json_values(text)):
        named = [named_call(value) for value in values if _is_call(value, tools)]
        return [call for call in named if call] if len(named) == len(values) else []
    if text.startswith("call:"):
        gemma = next(dialect for dialect in DIALECTS if dialect.name == "gemma")
        calls, end = read_block(gemma, text, 0, tools)
        return calls if not text[end:].strip() else []
    begun = _MAY_BE_BARE.match(text)
    return python_calls(text, tools) if begun and begun["name"] else []


def _json_values(text: str) -> list[Any]:
    """Return the JSON values that `text` consists of, those of a list one by one."""
    values: list[Any] = []
    position = 0
    while position < len(text):
        try:
            value, position = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError):
            return []
        values += value if isinstance(value, list) else [value]
        position += len(text[position:]) - len(text[position:].lstrip("\n\r\t ,;"))
    return values


def _is_call(value: Any, tools: Tools) -> bool:
    """Whether an object without marks is a call: it has nothing but the members of one, and names a
    tool or has `arguments`."""
    call = named_call(value)
    if call is None or not set(value) <= _BARE_MEMBERS or len(value) < 2:
        return isinstance(value, dict) and isinstance(value.get("function"), dict)
    return call.name in tools or isinstance(value.get("arguments"), dict)


@dataclass
class Shown:
    """A stream's text as it is shown to the person: thinking as such, and without calls, of which
    only the names are told. Text that may be a call is held back until the reply is complete."""

    tools: Tools
    dialects: Collection[str]
    thought_end: str = ""
    """What ends the thinking that goes on; empty if the reply does not begin with any."""
    _held: str = ""
    _line: str = ""
    """What was shown of the current line."""
    _fence: str = ""
    _state: Literal["begin", "thought", "text", "call"] = "begin"
    _named: bool = False
    _shown: int = 0

    def __post_init__(self) -> None:
        if self.thought_end:
            self._state = "thought"

    def take(self, text: str) -> Iterator[TextDelta | ReasoningDelta | ToolCallStarted]:
        self._held += text
        if self._state == "begin":
            self._begin()
        if self._state == "thought":
            yield from self._think()
        if self._state == "text":
            yield from self._show()
        if self._state == "call" and not self._named:
            known = (word for word in re.findall(r"[\w-]+", self._held[:400]) if word in self.tools)
            if name := next(known, ""):
                self._named = True
                yield ToolCallStarted(name)

    def rest(self, found: Found) -> Iterator[TextDelta | ReasoningDelta | ToolCallStarted]:
        """Yield what was held back and is not a call, then the names of calls not told yet."""
        if self._state == "thought":
            yield TextDelta(found.said) if found.said.strip() else ReasoningDelta(self._held)
        elif found.calls:
            if said := find_calls(self._held, self.tools, self.dialects).said:
                yield TextDelta(said)
        elif said := found.said[self._shown :]:
            yield TextDelta(said)
        for call in found.calls[self._named :]:
            yield ToolCallStarted(call.name)

    def _begin(self) -> None:
        """Decide whether the reply begins with thinking, with what may be calls, or with text."""
        begun = self._held.lstrip()
        if self.thought_end:
            self._held = begun
        if opener := next((mark for mark in THOUGHTS if begun.startswith(mark)), ""):
            self._state, self.thought_end = "thought", THOUGHTS[opener]
            self._held = begun[len(opener) :]
        elif any(mark.startswith(begun) for mark in (*THOUGHTS, "call:")):
            return
        elif not self.dialects:
            self._state = "text"
        elif bare := _MAY_BE_BARE.match(begun):
            self._state = "call" if bare["name"] is None or bare["name"] in self.tools else "text"
        elif begun[0] not in "[{`" or len(begun) >= _ENOUGH:
            self._state = "text"

    def _think(self) -> Iterator[ReasoningDelta]:
        thought, closed, rest = self._held.partition(self.thought_end)
        if closed:
            self._state, self._held = "begin", rest.lstrip()
        else:
            kept = _begun(thought, (self.thought_end,))
            thought, self._held = thought[: len(thought) - kept], thought[len(thought) - kept :]
        if thought:
            yield ReasoningDelta(thought)
        if closed and self._held:
            self._begin()
            if self._state == "thought":
                yield from self._think()

    def _show(self) -> Iterator[TextDelta]:
        """Yield text up to where calls may begin, or up to what may become the mark of one."""
        shown = 0
        while self._state == "text":
            end = self._held.find("\n", shown) + 1
            piece = self._held[shown : end or len(self._held)]
            mark = None
            if self.dialects and not self._fence:
                line, old = self._line + piece, len(self._line)
                marks = marks_in(line, max(0, old - _longest_mark()))
                mark = next((each for each in marks if each.start() >= old), None)
            if mark:
                self._state = "call"
                shown += mark.start() - old
                self._line = line[: mark.start()]
            elif end:
                self._fence = fence_after(self._line + piece, self._fence)
                self._line, shown = "", end
            else:
                shown = len(self._held) - self._unsure(piece)
                self._line += piece[: len(piece) - self._unsure(piece)]
                break
        text, self._held = self._held[:shown], self._held[shown:]
        self._shown += len(text)
        if text:
            yield TextDelta(text)

    def _unsure(self, piece: str) -> int:
        if not self.dialects or self._fence:
            return 0
        return _begun(piece, [begin for dialect in DIALECTS for begin in dialect.begins])


def _begun(text: str, marks: Collection[str]) -> int:
    """Return how many characters at the end of `text` may be the beginning of a mark."""
    longest = max(map(len, marks))
    lengths = range(min(longest - 1, len(text)), 0, -1)
    ends = (text[-length:] for length in lengths)
    return next((len(end) for end in ends if any(mark.startswith(end) for mark in marks)), 0)
