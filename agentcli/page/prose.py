"""What a model says, its Markdown rendered.

By markdown-it-py, as on the terminal: HTML in it stays text. Images are links, as the page fetches
nothing; links lead to the web or stay text.
"""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agentcli.page.markup import Room
from agentcli.ui.sanitize import printable

_MOST_BRACKETS = 500
"""Of what is rendered: the time that it takes grows with the square of these."""
_WEB = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_HEADINGS_BELOW = 3
"""The levels of headings that the page itself has."""
_LOWEST_HEADING = 6


def prose(said: str, room: Room, event: int) -> str:
    """`said` rendered; what is too long for that is shown as it is."""
    if len(said) > room.characters or said.count("[") > _MOST_BRACKETS:
        return f'<div class="said-text">{room.clipped(said, event)}</div>'
    reader = _reader()
    tokens = reader.parse(printable(said))
    for token in tokens:
        _adapt(token)
    return f'<div class="prose">{reader.renderer.render(tokens, reader.options, {})}</div>'


def _adapt(token: Token) -> None:
    if token.type in ("heading_open", "heading_close"):
        level = min(int(token.tag[1]) + _HEADINGS_BELOW, _LOWEST_HEADING)
        token.tag = f"h{level}"
    for child in token.children or ():
        if child.type == "link_open":
            child.attrSet("rel", "noopener noreferrer nofollow")
            child.attrSet("target", "_blank")


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    reader.disable("image")
    reader.validateLink = _leads_to_the_web  # type: ignore[method-assign]
    return reader


def _leads_to_the_web(url: str) -> bool:
    return _WEB.match(url) is not None
