"""What a reply's text consists of (thinking, calls, words), and what a person is shown of it.

A call as text counts as one if its block stands by itself: at the start of a line or behind a
sentence, with no sentence going on behind it, and not in a code fence or between backticks. A reply
that is nothing but calls needs no marks around them, and may have them in a fence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, reduce
from typing import Literal, NamedTuple

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.text_calls import (
    ARGUMENTS,
    BARE,
    DIALECTS,
    LISTS,
    NAMES,
    PLAIN_MARKS,
    THOUGHTS,
    Dialect,
    Tools,
    bare_calls,
    read_block,
)
from agentcli.llm.wire_protocol import unique_calls
from agentcli.messages import FinishReason, ProviderData, Reply, ToolCall

_FENCED = re.compile(
    r"\s*```(?:json|xml|tool_\w+)?[^\S\n]*\n(.*?)\n[^\S\n]*```[^\S\n]*(?=\n|\Z)", re.DOTALL
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)")
_QUOTING = re.compile(r"(?:>|[-*+#|]|\d+[.)])*")
_NOT_SAID = re.compile(
    r"\A\s*(?:<\|start\|>assistant)?(?:<\|channel\|>\w+(?: \w+)?<\|message\|>|"
    r"<\|open\|>response<\|sep\|>)|(?:\s*<\|(?:return|end|call|im_end|eot_id|eom_id)\|>|"
    r"\s*<\|close\|>(?:response|message)<\|sep\|>|\s*<turn\|>)+\s*\Z"
)
"""Marks of channels and ends around what is said."""
_MARKS = tuple(sorted({begin for d in DIALECTS for begin in d.begins}, key=len, reverse=True))
"""What blocks of calls may begin with, the longest first."""
_MARK = re.compile("|".join(map(re.escape, _MARKS)))
_ENOUGH = 48
"""Characters from which it shows whether a reply that begins like one is nothing but calls."""
_BARE_BEGINS = "[{`"
_OPEN_FENCE = r"```(?:json|xml|tool_\w+)?\s*"
_CALL_MEMBERS = rf'(?:{"|".join((*NAMES, *ARGUMENTS, *LISTS, "id"))}|type"\s*:\s*"function)'
_BARE_CALLS = re.compile(
    rf'(?:{_OPEN_FENCE})?(?:[\[{{\s]*"{_CALL_MEMBERS}"|\[?\s*(?:\w+\.)*(?P<name>\w+)\()'
    rf"|{_OPEN_FENCE}(?:{_MARK.pattern})|call:\w"
)
"""What a reply begins with that may be nothing but calls; in group `name` the function that Python
calls."""
_LONGEST_LINE = 2_000
"""Characters of a line that are looked at for what stands before a mark."""


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


def understood(
    reply: Reply, tools: Tools, dialects: Collection[str]
) -> tuple[Reply, Found, Thought]:
    """Return `reply` with the calls in its text and without its thinking, and what was found. A
    reply that was cut off gets no calls."""
    thought = split_thought(reply.text)
    reasoning = "\n\n".join(filter(None, (reply.reasoning, thought.thinking)))
    called = tuple(replace(call, name=whole_name(call.name, tools)) for call in reply.tool_calls)
    found = Found(thought.rest, [])
    if dialects and not called:
        found = find_calls(thought.rest, tools, dialects)
        if not found.said.strip() and not found.calls:
            # Some models begin to call before they have closed their thinking.
            late = find_calls(reasoning, tools, dialects)
            if late.calls and late.is_last and all(call.name in tools for call in late.calls):
                found = late._replace(said="")
    if found.said == reply.text and called == reply.tool_calls and not found.calls:
        return reply, found, thought
    reply = replace(reply, text=found.said, reasoning=reasoning, tool_calls=called)
    if found.calls and reply.finish_reason in (FinishReason.STOP, FinishReason.TOOL_CALLS):
        named = [replace(call, name=whole_name(call.name, tools)) for call in found.calls]
        reply = replace(
            reply,
            tool_calls=unique_calls(named, "call_"),
            finish_reason=FinishReason.TOOL_CALLS,
            provider_data=_beside_calls(reply, thought, found),
        )
    return reply, found, thought


def _beside_calls(reply: Reply, thought: Thought, found: Found) -> ProviderData | None:
    """Return what goes back with calls that were text: the members of a chat message, with thinking
    where it was. Items with types give an order of parts that these calls are not in."""
    data = reply.provider_data
    if data is None or "type" in data.items[0]:
        return None
    members = dict(data.items[0])
    content = members.pop("content", None)
    if isinstance(content, str) and thought.rest:
        members["content"] = content.removesuffix(thought.rest) + found.said
    return replace(data, items=(members,)) if members else None


def whole_name(name: str, tools: Collection[str]) -> str:
    """Return the name of the tool that a model means: without the marks of channels that gpt-oss
    leaves at it, and without a namespace (`default_api.bash`) or capitals that are not its own."""
    name = name.partition("<|")[0].strip()
    parts = [] if name in tools else re.findall(r"[\w-]+", name)
    meant = {word for part in parts for word in (part, part.lower()) if word in tools}
    return meant.pop() if len(meant) == 1 else name


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
        in_fence = reduce(lambda fence, line: fence_after(line, fence), thought.splitlines(), "")
        begun = opener not in thought and thought.rstrip(" ")[-1:] in ("", *"\n.!?")
        if begun and rest[:1] in ("", "\n") and not in_fence:
            return Thought(thought.strip(), rest.lstrip(), closer)
    return Thought("", text)


def find_calls(text: str, tools: Tools, dialects: Collection[str]) -> Found:
    """Return the calls in `text` that are written in one of `dialects`. One that can't be read has
    its text as arguments, and a name if one can be made out."""
    fenced = _FENCED.findall(text) if text.lstrip().startswith("```") else []
    inner = "\n".join(fenced) if fenced and not _FENCED.sub("", text).strip() else ""
    may_be_bare = BARE in dialects
    calls = (may_be_bare and bare_calls(inner, tools)) or _marked(inner, tools, dialects).calls
    if calls and all(call.name in tools for call in calls):
        return Found("", calls, BARE)
    if (found := _marked(text, tools, dialects)).calls:
        return found
    if may_be_bare and (calls := bare_calls(text, tools)):
        return Found("", calls, BARE)
    return Found(_said(text), [])


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
    if not _MARK.search(text, start):
        return None
    position, fence = start, ""
    while position < len(text):
        line_end = text.find("\n", position) + 1 or len(text)
        line = text[position:line_end]
        marks = () if fence else _MARK.finditer(line)
        for mark in marks:
            before, may_begin = line[: mark.start()], _may_begin(line, mark)
            alone = may_begin and not before.strip()
            block = _block_at(text, position + mark.start(), mark[0], tools, dialects, alone)
            if block is None:
                continue
            if may_begin and not _is_quoted(text[block.end :], before, mark[0]):
                return block
            position = block.end
            break
        else:
            fence = fence_after(line, fence)
            position = line_end
    return None


def _may_begin(line: str, mark: re.Match[str]) -> bool:
    """Whether what stands before a mark in its line lets calls begin: no quotation, code, item of a
    list or unfinished sentence. Marks of a model's own vocabulary may follow any word."""
    before = line[: mark.start()].strip()
    if line.startswith(("    ", "\t")) and not before:
        return False
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


def _is_quoted(behind: str, before: str, mark: str) -> bool:
    """Whether a sentence goes on behind a block, or more text behind one that ends a reply."""
    if mark.startswith("```"):
        return bool(behind.strip())
    rest = behind.partition("\n")[0].strip()
    return bool(rest if before.strip() else re.match(r"[a-z,.;:!?)\]}\"'`]", rest))


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
    name = re.search(r'"name"\s*:\s*"([^"\\]{1,64})"', raw)
    return _Block(start, after, [ToolCall("", name[1] if name else "", raw)], spoken[0].name)


def _beginning_with(mark: str, dialects: Collection[str]) -> list[Dialect]:
    return [each for each in DIALECTS if mark in each.begins and each.name in dialects]


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
        elif not self.dialects or not (
            begun[0] in _BARE_BEGINS or "(" in begun or begun.startswith("call:")
        ):
            # A look at the characters rules out that the reply is nothing but calls.
            self._state = "text"
        elif bare := _BARE_CALLS.match(begun):
            self._state = "call" if bare["name"] is None or bare["name"] in self.tools else "text"
        elif begun[0] not in _BARE_BEGINS or len(begun) >= _ENOUGH:
            self._state = "text"

    def _think(self) -> Iterator[ReasoningDelta]:
        thought, closed, rest = self._held.partition(self.thought_end)
        if closed:
            self._state, self._held = "begin", rest.lstrip()
        else:
            sure = len(thought) - _begun(thought, (self.thought_end,))
            thought, self._held = thought[:sure], thought[sure:]
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
                marks = _MARK.finditer(line, max(0, old - len(_MARKS[0])))
                fitting = (m for m in marks if m.start() >= old and _may_begin(line, m))
                mark = next(fitting, None)
            if mark:
                self._state = "call"
                shown += mark.start() - old
                self._line = line[: mark.start()]
            elif end:
                self._fence = fence_after(self._line + piece, self._fence)
                self._line, shown = "", end
            else:
                unsure = 0 if self._fence or not self.dialects else _begun(piece, _MARKS)
                shown = len(self._held) - unsure
                self._line = (self._line + piece[: len(piece) - unsure])[-_LONGEST_LINE:]
                break
        text, self._held = self._held[:shown], self._held[shown:]
        self._shown += len(text)
        if text:
            yield TextDelta(text)


def _begun(text: str, marks: Sequence[str]) -> int:
    """Return how many characters at the end of `text` may be the beginning of one of `marks`."""
    end = text[1 - max(map(len, marks)) :]
    for start in _first_characters(marks).finditer(end):
        tail = end[start.start() :]
        if any(mark.startswith(tail) for mark in marks):
            return len(tail)
    return 0


@cache
def _first_characters(marks: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join({re.escape(mark[0]) for mark in marks}))
