"""Show the model's words while they arrive."""

from __future__ import annotations

from agentcli.ui.markdown_stream import Block, BlockSplitter, render_block
from agentcli.ui.sanitize import printable
from agentcli.ui.screen import Screen
from agentcli.ui.style import Line, Span, cells

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
        """Keep what is live, as something else of the same reply comes next."""
        self._end_reasoning()
        self._take_in()
        for block in self._blocks.finish():
            self._put_block(block)

    def end(self) -> None:
        """Keep what is live, as nothing more comes."""
        self.pause()
        self.begun = self._kept = False

    def abandon(self) -> bool:
        """Drop what is live, as the reply is void. Return whether void text stays on the screen."""
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
        rows = [screen.row(line) for line in _wrapped(self._reasoning, screen.width)]
        return ["", *rows] if screen.gap("thought") else rows

    def _take_in(self) -> None:
        """Take in all text since the last time at once, as each open block costs a rendering."""
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


def _wrapped(text: str, width: int) -> list[Line]:
    """Return the last rows of `text`, broken anywhere, as they are replaced in a moment."""
    text = printable(text, multiline=False)[-width * _LIVE_REASONING_ROWS :]
    step = width if cells(text) == len(text) else width // 2
    parts = [text[start : start + step] for start in range(0, len(text), step)]
    return [[Span(part, "dim")] for part in parts[-_LIVE_REASONING_ROWS:]]
