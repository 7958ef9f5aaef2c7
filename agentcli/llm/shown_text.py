"""What a person is shown of a reply as it arrives: not its calls, and its thinking as such."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from agentcli.events.progress import ReasoningDelta, TextDelta, ToolCallStarted
from agentcli.llm.call_dialects import THOUGHTS
from agentcli.llm.reply_text import Found, all_marks, fence_after, find_calls, marks_in
from agentcli.llm.text_calls import ARGUMENTS, LISTS, NAMES, Tools

_ENOUGH = 48
"""Characters from which it shows whether a reply that begins like one is nothing but calls."""
_BARE_BEGINS = "[{`"
_LONGEST_LINE = 2_000
"""Characters of a line that are looked at for what stands before a mark."""


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
        elif not self.dialects or not _may_be_calls(begun):
            self._state = "text"
        elif bare := _may_be_bare().match(begun):
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
                marks = marks_in(line, max(0, old - len(all_marks()[0])))
                mark = next((each for each in marks if each.start() >= old), None)
            if mark:
                self._state = "call"
                shown += mark.start() - old
                self._line = line[: mark.start()]
            elif end:
                self._fence = fence_after(self._line + piece, self._fence)
                self._line, shown = "", end
            else:
                unsure = 0 if self._fence or not self.dialects else _begun(piece, all_marks())
                shown = len(self._held) - unsure
                self._line = (self._line + piece[: len(piece) - unsure])[-_LONGEST_LINE:]
                break
        text, self._held = self._held[:shown], self._held[shown:]
        self._shown += len(text)
        if text:
            yield TextDelta(text)


def _may_be_calls(begun: str) -> bool:
    """Whether a look at the characters does not rule out that a reply is nothing but calls."""
    return begun[0] in _BARE_BEGINS or "(" in begun or begun.startswith("call:")


@cache
def _may_be_bare() -> re.Pattern[str]:
    """Return what a reply begins with that may be nothing but calls; in group `name` the function
    that Python calls."""
    fence = r"```(?:json|xml|tool_\w+)?\s*"
    members = rf'(?:{"|".join((*NAMES, *ARGUMENTS, *LISTS, "id"))}|type"\s*:\s*"function)'
    python = r"\[?\s*(?:\w+\.)*(?P<name>\w+)\("
    marks = "|".join(map(re.escape, all_marks()))
    return re.compile(rf'(?:{fence})?(?:[\[{{\s]*"{members}"|{python})|{fence}(?:{marks})|call:\w')


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
