"""What a reply's text consists of: thinking, calls as text, and what is said to the person.

A call as text counts as one if its block stands by itself: at the start of a line or behind a
sentence, with no sentence going on behind it, and not in a code fence or between backticks. A reply
that is nothing but calls needs no marks around them, and may have them in a fence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache, reduce
from typing import NamedTuple

from agentcli.llm.call_dialects import BARE, DIALECTS, PLAIN_MARKS, THOUGHTS, Dialect
from agentcli.llm.text_calls import Tools, bare_calls, read_block
from agentcli.llm.wire_protocol import unique_calls
from agentcli.messages import FinishReason, ProviderData, Reply, ToolCall

_USABLE = (FinishReason.STOP, FinishReason.TOOL_CALLS)
_FENCED = re.compile(
    r"\s*```(?:json|xml|tool_\w+)?[^\S\n]*\n(.*?)\n[^\S\n]*```[^\S\n]*(?=\n|\Z)", re.DOTALL
)
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`\n]*)")
_QUOTING = re.compile(r"(?:>|[-*+#|]|\d+[.)])*")
_CODE_INDENTS = ("    ", "\t")
_GOES_ON = re.compile(r"[a-z,.;:!?)\]}\"'`]")
_NAME_PART = re.compile(r"[\w-]+")
_NAMED = re.compile(r'"name"\s*:\s*"([^"\\]{1,64})"')
_NOT_SAID = re.compile(
    r"\A\s*(?:<\|start\|>assistant)?(?:<\|channel\|>\w+(?: \w+)?<\|message\|>|"
    r"<\|open\|>response<\|sep\|>)|(?:\s*<\|(?:return|end|call|im_end|eot_id|eom_id)\|>|"
    r"\s*<\|close\|>(?:response|message)<\|sep\|>|\s*<turn\|>)+\s*\Z"
)
"""Marks of channels and ends around what is said."""


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
def all_marks() -> Sequence[str]:
    """Return what blocks of calls may begin with, the longest first."""
    begins = {begin for dialect in DIALECTS for begin in dialect.begins}
    return tuple(sorted(begins, key=len, reverse=True))


@cache
def _marks() -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, all_marks())))


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
            found = _calls_in_thought(reasoning, tools, dialects) or found
    if found.said == reply.text and called == reply.tool_calls and not found.calls:
        return reply, found, thought
    reply = replace(reply, text=found.said, reasoning=reasoning, tool_calls=called)
    if found.calls and reply.finish_reason in _USABLE:
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


def _calls_in_thought(thought: str, tools: Tools, dialects: Collection[str]) -> Found | None:
    """Return the calls that thinking ends with: some models begin to call before they have closed
    their thinking."""
    found = find_calls(thought, tools, dialects)
    good = found.calls and found.is_last and all(call.name in tools for call in found.calls)
    return found._replace(said="") if good else None


def whole_name(name: str, tools: Collection[str]) -> str:
    """Return the name of the tool that a model means: without the marks of channels that gpt-oss
    leaves at it, and without a namespace (`default_api.bash`) or capitals that are not its own."""
    name = name.partition("<|")[0].strip()
    parts = [] if name in tools else _NAME_PART.findall(name)
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
    """Whether what stands before a mark in its line lets calls begin: no quotation, code, item of a
    list or unfinished sentence. Marks of a model's own vocabulary may follow any word."""
    before = line[: mark.start()].strip()
    if line.startswith(_CODE_INDENTS) and not before:
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
