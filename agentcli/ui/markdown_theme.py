"""How Markdown looks: left-aligned, without boxes and backgrounds, on dark and light terminals.

This is the only module that uses Rich's renderer; it is imported with the first block to show.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement, Paragraph
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme

from agentcli.ui.highlight import highlight_code
from agentcli.ui.screen import URL, url_link
from agentcli.ui.text import Colors, cells, fitting, printable

# HTML is treated as text: Rich would leave it out, and `List<int>` outside of code is common.
_PARSER = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])

_THEME = Theme(
    {
        "markdown.code": "cyan",
        "markdown.block_quote": "dim",
        "markdown.list": "none",
        "markdown.item.bullet": "dim",
        "markdown.item.number": "dim",
        "markdown.h1": "bold underline",
        **{f"markdown.h{level}": "bold" for level in range(2, 7)},
        "markdown.link_url": "none",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
_HELD_BLANK = "\ue000"
"""Stands for a blank in code, where a row must not be broken; no visible text contains it."""
_WORD = re.compile(r"\S+\s*|\s+")


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _PlainCodeBlock(CodeBlock):
    """Code within a list or a quotation; its lines are never broken."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in highlight_code(str(self.text).rstrip(), self.lexer_name):
            for text, style, _ in line:
                yield Segment(text, Style.parse(style or "none"))
            yield Segment.line()


class _Words(Paragraph):
    """A paragraph whose rows break between words, and never within code or a URL."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for line in self.text.split(allow_blank=True):
            for row in line.divide(_breaks(line.plain, options.max_width)):
                row.rstrip()
                yield from row.render(console, end="\n")


def _breaks(text: str, width: int) -> list[int]:
    """Return where rows of `width` columns begin, except the first."""
    breaks: list[int] = []
    used = 0
    for word in _WORD.finditer(text):
        shown = word[0].rstrip()
        if used and used + cells(shown) > width:
            breaks.append(word.start())
            used = 0
        at = word.start()
        while cells(shown) > width and _HELD_BLANK not in shown and not URL.search(shown):
            taken = max(1, fitting(shown, width))
            shown = shown[taken:]
            at += taken
            breaks.append(at)
        used += cells(text[at : word.end()])
    return breaks


class _UncroppedConsole(Console):
    """A console that allows overlong rows, for text that must not be broken."""

    def render_lines(
        self,
        renderable: RenderableType,
        options: ConsoleOptions | None = None,
        *,
        style: Style | None = None,
        pad: bool = True,
        new_lines: bool = False,
    ) -> list[list[Segment]]:
        options = options or self.options
        lines = Segment.split_lines(Segment.apply_style(self.render(renderable, options), style))
        width = options.max_width if pad else 0
        return [
            Segment.adjust_line_length(line, max(width, Segment.get_line_length(line)), style)
            for line in lines
        ]


_CONSOLE = _UncroppedConsole(
    file=io.StringIO(), force_terminal=True, legacy_windows=False, theme=_THEME
)


class _CalmMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "paragraph_open": _Words,
        "fence": _PlainCodeBlock,
        "code_block": _PlainCodeBlock,
    }

    def __init__(self, markup: str, *, marks_code: bool) -> None:
        super().__init__("")
        self.parsed = _PARSER.parse(markup)
        in_table = False
        for token in self.parsed:
            if token.type in ("table_open", "table_close"):
                in_table = token.type == "table_open"
            if token.children:
                children = _marked(token.children, marks_code=marks_code, hold=not in_table)
                token.children = list(_linked(children))


def _marked(tokens: Iterable[Token], *, marks_code: bool, hold: bool) -> Iterator[Token]:
    """Show images as written, and code with its backticks if no colour sets it off from text. In a
    table, rows may break within code, as columns are narrow."""
    for token in tokens:
        if token.type == "image":
            text = f"![{token.content}]({token.attrs.get('src', '')})"
            yield Token("text", "", 0, content=text)
            continue
        if token.type == "code_inline":
            text = token.content.replace(" ", _HELD_BLANK) if hold else token.content
            token.content = f"`{text}`" if marks_code else text
        yield token


def _linked(tokens: Iterable[Token]) -> Iterator[Token]:
    """Always show where a link leads: after its text, unless they are the same."""
    said, href = "", None
    for token in tokens:
        if token.type == "link_open":
            said, href = "", str(token.attrs.get("href", ""))
        elif token.type == "link_close":
            if href and said != href and token.markup != "autolink":
                yield Token("text", "", 0, content=f" ({href})")
            href = None
        elif href is not None:
            said += token.content
        elif token.type == "text":
            yield from _addresses(token.content)
            continue
        yield token


def _addresses(text: str) -> Iterator[Token]:
    at = 0
    for found in URL.finditer(text):
        yield Token("text", "", 0, content=text[at : found.start()])
        yield Token("link_open", "a", 1, attrs={"href": found[0]})
        yield Token("text", "", 0, content=found[0])
        yield Token("link_close", "a", -1)
        at = found.end()
    yield Token("text", "", 0, content=text[at:])


def render_rows(markup: str, width: int, colors: Colors, links: bool = False) -> list[str]:
    """Return the rows of `markup` with escape codes and no blanks at their ends. No row is wider
    than `width`, except for code and URLs, which are never broken.

    Every character is made printable once more at the end, as parsing Markdown turns entities and
    percent codes into characters.
    """
    options = _CONSOLE.options.update(width=width, height=None)
    markdown = _CalmMarkdown(markup.replace(_HELD_BLANK, " "), marks_code=colors != "full")
    lines = _CONSOLE.render_lines(markdown, options, pad=False)
    rows = [_row(line, colors, links) for line in lines]
    while rows and not rows[-1]:
        rows.pop()
    while rows and not rows[0]:
        rows.pop(0)
    return rows


def _row(segments: list[Segment], colors: Colors, links: bool) -> str:
    while segments and not segments[-1].text.strip():
        segments = segments[:-1]
    parts = []
    for index, (text, style, _) in enumerate(segments):
        if index == len(segments) - 1:
            text = text.rstrip()
        text = printable(text.replace(_HELD_BLANK, " "), multiline=False)
        link = url_link(style.link) if links and style and style.link else ""
        if style is not None and colors != "none":
            style = style.update_link(None)
            style = style if colors == "full" else style.without_color
            text = style.render(text, color_system=ColorSystem.STANDARD)
        parts.append(f"\x1b]8;;{link}\x1b\\{text}\x1b]8;;\x1b\\" if link else text)
    return "".join(parts)
