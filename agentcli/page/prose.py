"""Renders the Markdown of a model's messages.

markdown-it-py is used, as for the terminal. HTML in a message stays text, images become links
because the page fetches nothing, and links that do not lead to the web stay text.
"""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from agentcli.page.markup import Clipper
from agentcli.ui.text import printable

_MOST_BRACKETS = 500
"""Text with more brackets is not rendered, because the time grows with their square."""
_WEB = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_HEADINGS_BELOW = 3
"""Levels of headings that the page itself uses."""
_LOWEST_HEADING = 6


def prose(said: str, clipper: Clipper, event: int) -> str:
    """Return a message as HTML. If it is too long, it is shown as it is."""
    if len(said) > clipper.characters or said.count("[") > _MOST_BRACKETS:
        return clipper.verbatim(said, event)
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
