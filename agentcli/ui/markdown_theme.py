"""How Markdown looks: left-aligned, without boxes and backgrounds, on dark and light terminals.

The only user of Rich's renderer; imported when the first block is to be shown.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import cache
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.color import ColorSystem
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown, MarkdownElement
from rich.segment import Segment
from rich.style import Style
from rich.syntax import ANSI_DARK, ANSISyntaxTheme, Syntax
from rich.theme import Theme

from agentcli.ui.sanitize import printable
from agentcli.ui.style import Colors

# HTML stays text: Rich would leave it out, and `List<int>` outside of code is common.
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
        "markdown.link": "none",
        "markdown.link_url": "dim",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)
_CODE_STYLES = {
    "Token.Comment": "dim",
    "Token.Keyword": "magenta",
    "Token.Operator.Word": "magenta",
    "Token.Literal.String": "green",
    "Token.Literal.Number": "cyan",
    "Token.Name.Decorator": "cyan",
    "Token.Generic.Deleted": "red",
    "Token.Generic.Inserted": "green",
    "Token.Generic.Heading": "bold",
}
_CODE_THEME = ANSISyntaxTheme(
    {token: Style.parse(_CODE_STYLES.get(str(token), "none")) for token in ANSI_DARK}
)


class _LeftHeading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _PlainCodeBlock(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(
            str(self.text).rstrip(),
            self.lexer_name,
            theme=_CODE_THEME,
            word_wrap=True,
            background_color="default",
            padding=(0, 2),
        )


class _CalmMarkdown(Markdown):
    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _LeftHeading,
        "fence": _PlainCodeBlock,
        "code_block": _PlainCodeBlock,
    }

    def __init__(self, markup: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _PARSER.parse(markup)
        for token in self.parsed:
            if token.children:
                token.children = list(_without_doubles(token.children))


def _without_doubles(tokens: list[Token]) -> Iterator[Token]:
    """`<https://…>` once instead of as its own link text, pictures as they are written."""
    for token in tokens:
        if token.type == "image":
            text = f"![{token.content}]({token.attrs.get('src', '')})"
            yield Token("text", "", 0, content=text)
        elif token.markup != "autolink":
            yield token


def render_rows(markup: str, width: int, colors: Colors) -> list[str]:
    """The rows of `markup` with escape codes, none wider than `width` and no blanks at their ends.

    Every character is made printable again on the way out: entities and percent codes become
    characters only while Markdown is parsed.
    """
    console = _console()
    options = console.options.update(width=width, height=None)
    lines = console.render_lines(_CalmMarkdown(markup), options, pad=False)
    rows = [_row(line, colors) for line in lines]
    while rows and not rows[-1]:
        rows.pop()
    while rows and not rows[0]:
        rows.pop(0)
    return rows


def _row(segments: list[Segment], colors: Colors) -> str:
    while segments and not segments[-1].text.strip():
        segments = segments[:-1]
    parts = []
    for index, (text, style, _) in enumerate(segments):
        if index == len(segments) - 1:
            text = text.rstrip()
        text = printable(text, multiline=False)
        if style is not None and colors != "none":
            style = style if colors == "full" else style.without_color
            text = style.render(text, color_system=ColorSystem.STANDARD)
        parts.append(text)
    return "".join(parts)


@cache
def _console() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, legacy_windows=False, theme=_THEME)
