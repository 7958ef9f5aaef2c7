"""Show the model's words as they arrive: Markdown in finished blocks, and the open one as it grows.

Blocks are split by looking at lines only: a reply of 6,000 characters in 500 pieces takes 0.6 ms.
It would take 0.5 s if markdown-it parsed the open block again with each line.
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from agentcli.ui.screen import Screen
from agentcli.ui.text import Colors, Span, cells, paint, printable

_FENCE = re.compile(r"\s*(?:[-*+]\s+|\d+[.)]\s+)?(`{3,}|~{3,})\s*([\w+#.-]*)")
_LIST_ITEM = re.compile(r"(\s*)(?:[-*+]|\d{1,9}[.)])(?:\s+|$)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-+:?\s*\|[\s|:-]*$")
_PREVIEW_LINES = 60
_PREVIEW_TABLE_ROWS = 12
_CODE_BEFORE = 16
"""Preceding lines of code that the highlighter gets, to know if it is in a string, say."""
_MAX_WIDTH = 120


class Block(NamedTuple):
    """A part of a reply that is rendered on its own. `joined` means that no empty line goes before
    it. A `code` block holds lines of fenced code in `language`, which follow the lines `before`; a
    `fence` block is the line that begins or ends such code."""

    text: str
    kind: Literal["text", "code", "fence"] = "text"
    joined: bool = False
    language: str = ""
    before: tuple[str, ...] = ()


class BlockSplitter:
    """Cuts a stream of Markdown into blocks that can each be rendered on their own.

    A list item, with everything indented under it, is one block, and so is each line of fenced
    code: so the finished part of a long list or program can be shown before its end.
    """

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._partial = ""
        self._fence = ""
        self._joined = False
        self._code: list[str] | None = None
        self._language = ""

    @property
    def open(self) -> Block:
        """The unfinished block; if it is long, its end, still as a block of the same kind."""
        if self._code is not None:
            return Block(self._partial, "code", True, self._language)
        lines = [*self._lines[-_PREVIEW_LINES:], self._partial]
        if len(self._lines) > _PREVIEW_TABLE_ROWS and _TABLE_RULE.match(self._lines[1]):
            lines = [*self._lines[:2], *lines[-_PREVIEW_TABLE_ROWS:]]
        return Block("\n".join(lines), joined=self._joined)

    def feed(self, text: str) -> list[Block]:
        """Append text and return the blocks that it completes."""
        *complete, self._partial = (self._partial + text).split("\n")
        blocks: list[Block] = []
        for line in complete:
            for block in self._add(line):
                last = blocks[-1] if blocks else None
                if last and last.kind == block.kind == "code":
                    blocks[-1] = last._replace(text=f"{last.text}\n{block.text}")
                else:
                    blocks.append(block)
        return blocks

    def finish(self) -> list[Block]:
        """Return the remaining blocks, at the end of the text or before something else."""
        blocks = [*self.feed("\n"), *self._take()] if self._partial else self._take()
        self._fence = ""
        self._code = None
        return blocks

    def _add(self, line: str) -> list[Block]:
        if self._code is not None:
            return [self._add_code(line)]
        if self._fence:
            self._lines.append(line)
            self._fence = "" if self._ends_fence(line) else self._fence
            return []
        blocks = []
        if self._begins_item(line):
            blocks += self._take(joined=True)
        elif self._lines and not self._lines[-1].strip() and line.strip():
            # After an empty line in an item, only what is indented still belongs to the item.
            blocks += self._take() if not line.startswith(("  ", "\t")) else []
        if fence := _FENCE.match(line):
            if self._in_list() or _LIST_ITEM.match(line):
                self._fence = fence[1]
                self._lines.append(line)
            else:
                blocks += [*self._take(), Block(line, "fence")]
                self._fence, self._language, self._code = fence[1], fence[2], []
        elif _HEADING.match(line):
            blocks += [*self._take(), Block(line)]
        elif line.strip() or self._in_list():
            self._lines.append(line)
        else:
            blocks += self._take()
        return blocks

    def _add_code(self, line: str) -> Block:
        if self._ends_fence(line):
            self._fence, self._code = "", None
            return Block(line, "fence", joined=True)
        before = self._code or []
        self._code = [*before, line][-_CODE_BEFORE:]
        return Block(line, "code", True, self._language, tuple(before))

    def _ends_fence(self, line: str) -> bool:
        mark = line.strip()
        return mark.startswith(self._fence) and not mark.strip(self._fence[0])

    def _in_list(self) -> bool:
        return bool(self._lines) and bool(_LIST_ITEM.match(self._lines[0]))

    def _begins_item(self, line: str) -> bool:
        """Return whether `line` is the next item of the list, not one nested in the last item."""
        item = _LIST_ITEM.match(line)
        first = _LIST_ITEM.match(self._lines[0]) if self._lines else None
        return bool(item and first and len(item[1]) < len(first[0]))

    def _take(self, joined: bool = False) -> list[Block]:
        """Take the open block. `joined` says that the next one continues the same list."""
        text = "\n".join(self._lines).strip("\n")
        block = Block(text, joined=self._joined)
        self._lines, self._joined = [], joined
        return [block] if text.strip() else []


def render_block(block: Block, width: int, colors: Colors, *, links: bool = False) -> list[str]:
    """Return the rows of one block, with escape codes for styles and no blanks at their ends. Code
    and URLs are never broken, so rows with them may be wider than `width`.

    Fences are only shown if no colours set code off from text. Text that the renderer shows nothing
    for (a link definition) is shown as written.
    """
    text = printable(block.text)
    if block.kind == "fence":
        return [] if colors == "full" else [paint([Span(text, "dim")], colors)]
    if block.kind == "code":
        return _code_rows(block, colors)
    from agentcli.ui.markdown_theme import render_rows  # Rich takes 60 ms to import

    rows = render_rows(text, min(width, _MAX_WIDTH), colors, links)
    return rows or text.split("\n")


def _code_rows(block: Block, colors: Colors) -> list[str]:
    rows = printable(block.text).split("\n")
    if colors != "full":
        return rows
    from agentcli.ui.highlight import highlight_code  # 90 ms, with Pygments

    before = printable("".join(f"{line}\n" for line in block.before))
    lines = highlight_code(before + "\n".join(rows), block.language)
    return [paint(line, colors) for line in lines[-len(rows) :]]


_LIVE_REASONING_ROWS = 3


class StreamedReply:
    """Text and reasoning of one reply: finished parts go to the screen, the rest is live."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._blocks = BlockSplitter()
        self._fresh = ""
        self._reasoning = ""
        self._kept = False
        self._apart = True
        self.begun = False
        """Whether text of this reply has been shown."""

    def add_text(self, text: str) -> None:
        self._end_reasoning()
        self.begun = True
        self._fresh += text

    def add_reasoning(self, text: str) -> None:
        *complete, self._reasoning = (self._reasoning + text).split("\n")
        self._put_reasoning(complete)

    def pause(self) -> None:
        """Make the live rows permanent before another part of the same reply."""
        self._end_reasoning()
        self._take_in()
        for block in self._blocks.finish():
            self._put_block(block)

    def end(self) -> None:
        """Make the live rows permanent at the end of the reply."""
        self.pause()
        self.begun = self._kept = False

    def abandon(self) -> bool:
        """Drop the live rows of a void reply. Return whether void text stays on the screen."""
        kept = self._kept
        self._blocks = BlockSplitter()
        self._fresh = self._reasoning = ""
        self.begun = self._kept = False
        return kept

    def show(self, text: str, reasoning: str = "") -> None:
        """Show a reply that has arrived as a whole."""
        self._put_reasoning(reasoning.strip().split("\n"))
        if not self._screen.rich:
            lines = printable(text.strip("\n")).split("\n") if text.strip() else []
            self._screen.put("text", [[Span(line)] for line in lines])
            return
        self.add_text(text)
        self.end()

    def rows(self) -> list[str]:
        """Send finished parts to the screen, and return the rows of the unfinished one."""
        self._take_in()
        screen = self._screen
        block = self._blocks.open
        if block.text.strip():
            rows = render_block(block, screen.width, screen.colors, links=screen.links)
            apart = self._apart or not block.joined
            return ["", *rows] if apart and screen.gap("text") else rows
        if not self._reasoning.strip():
            return []
        # The last rows, broken anywhere, as they are replaced in a moment.
        width, most = screen.width, _LIVE_REASONING_ROWS
        text = printable(self._reasoning, multiline=False)[-width * most :]
        step = width if cells(text) == len(text) else width // 2
        parts = [text[start : start + step] for start in range(0, len(text), step)]
        rows = [screen.row([Span(part, "dim")]) for part in parts[-most:]]
        return ["", *rows] if screen.gap("thought") else rows

    def _take_in(self) -> None:
        """Process all new text at once, as each open block costs a rendering."""
        fresh, self._fresh = self._fresh, ""
        for block in self._blocks.feed(fresh):
            self._put_block(block)

    def _end_reasoning(self) -> None:
        if self._reasoning:
            self._put_reasoning([self._reasoning])
            self._reasoning = ""

    def _put_reasoning(self, lines: list[str]) -> None:
        self._screen.put("thought", [[Span(printable(line), "dim")] for line in lines if line])

    def _put_block(self, block: Block) -> None:
        self._kept = True
        screen = self._screen
        rows = render_block(block, screen.width, screen.colors, links=screen.links)
        self._apart = self._apart or not block.joined
        if rows:
            screen.put_rows("text", rows, joined=not self._apart)
            self._apart = False
