"""Turns untrusted text, plain or Markdown, into harmless HTML.

markdown-it-py renders a model's messages, as for the terminal. HTML in a message stays text, images
become links because the page fetches nothing, and links that do not lead to the web stay text.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from markdown_it import MarkdownIt

from agentcli.ui.summary import count
from agentcli.ui.text import printable

_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")


def text(value: str) -> str:
    """Escape `value` as the text of an element. Control characters, and those that reverse the
    order of text, become visible."""
    return html.escape(printable(value), quote=False)


def line(value: str) -> str:
    """Escape `value` as `text` does, on one line."""
    return html.escape(printable(value, multiline=False), quote=False)


def attribute(value: str) -> str:
    """Escape `value` as the value of an attribute in quotation marks."""
    return html.escape(printable(value, multiline=False))


def script_json(value: Any) -> str:
    """Return `value` as JSON for a script element, which nothing in it can end."""
    dumped = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return dumped.replace("<", "\\u003c")


def element(name: str, content: str, classes: str = "", **attributes: str) -> str:
    """Return an element; `content` is HTML, `attributes` are texts."""
    given = {"class": classes, **attributes} if classes else attributes
    pairs = (f' {key.replace("_", "-")}="{attribute(value)}"' for key, value in given.items())
    return f"<{name}{''.join(pairs)}>{content}</{name}>"


def facts(pairs: Mapping[str, str]) -> str:
    """Return a list of names, each with its value, which is HTML."""
    rows = (f"<div><dt>{line(name)}</dt><dd>{value}</dd></div>" for name, value in pairs.items())
    return f'<dl class="facts">{"".join(rows)}</dl>'


def fold(summary: str, body: str, classes: str = "", *, opened: bool = False) -> str:
    """Return `body` under a line that opens and closes it; both are HTML."""
    named = f' class="{classes}"' if classes else ""
    is_open = " open" if opened else ""
    return f"<details{named}{is_open}><summary>{summary}</summary>{body}</details>"


@dataclass
class ImageBudget:
    """How many bytes are left for images, and how many one image may have."""

    left: int
    one: int


@dataclass(frozen=True)
class Clipper:
    """Keeps texts and images within limits. `characters` is the limit of one text; `session` is the
    id of the session that has the rest."""

    session: str
    characters: int
    images: ImageBudget

    def pre(self, content: str, event: int, classes: str = "") -> str:
        """Return preformatted text, without its middle if it is too long."""
        return element("pre", self.clipped(content, event), classes)

    def verbatim(self, content: str, event: int) -> str:
        """Return a message as it was written, within the limit."""
        return element("div", self.clipped(content, event), "said-text")

    def clipped(self, content: str, event: int) -> str:
        """Return the same text without an element around it."""
        head, left_out, tail = self._cut(content)
        if not left_out:
            return text(head)
        return text(head) + self.omission(count(left_out, "character"), event) + text(tail)

    def omission(self, left_out: str, event: int) -> str:
        """Return the note that stands for an omitted part, with the command that shows it."""
        rest = f"agent sessions show {line(self.session)} --event {event}"
        return f'<span class="cut">… {left_out} not on this page: <code>{rest}</code> …</span>'

    def _cut(self, content: str) -> tuple[str, int, str]:
        """Return the beginning, the number of omitted characters, and the end."""
        if len(content) <= self.characters + min(400, self.characters // 4):
            return content, 0, ""
        head, tail = content[: self.characters * 2 // 3], content[-self.characters // 3 :]
        head = head[: head.rfind("\n") + 1] or head
        tail = tail[tail.find("\n") + 1 :] or tail
        return head, len(content) - len(head) - len(tail), tail

    def image(self, url: str, event: int) -> str:
        """Return the image if the session contains it and it is small enough, otherwise a note."""
        if not _IMAGE.fullmatch(url):
            about = url.partition(",")[0] if url.startswith("data:") else url
            return f'<p class="cut">an image that is not shown: {line(about[:200])}</p>'
        if len(url) > min(self.images.one, self.images.left):
            size = f"{len(url) * 3 // 4 // 1024:,} KB"
            return f'<p class="cut">an image of {size} is not on this page</p>'
        self.images.left -= len(url)
        return f'<img src="{url}" alt="image of event {event}">'


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
        if token.type in ("heading_open", "heading_close"):
            level = min(int(token.tag[1]) + _HEADINGS_BELOW, _LOWEST_HEADING)
            token.tag = f"h{level}"
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("rel", "noopener noreferrer nofollow")
                child.attrSet("target", "_blank")
    return f'<div class="prose">{reader.renderer.render(tokens, reader.options, {})}</div>'


@cache
def _reader() -> MarkdownIt:
    reader = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    reader.disable("image")
    reader.validateLink = lambda url: _WEB.match(url) is not None  # type: ignore[method-assign]
    return reader
