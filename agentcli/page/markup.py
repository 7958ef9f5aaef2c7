"""Text that others wrote, as HTML in which it can do nothing."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentcli.ui.sanitize import printable
from agentcli.ui.summary import count

_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+=*")


def text(value: str) -> str:
    """`value` as text of an element: control characters and those that turn its order around are
    shown, not obeyed."""
    return html.escape(printable(value), quote=False)


def line(value: str) -> str:
    """The same on one line."""
    return html.escape(printable(value, multiline=False), quote=False)


def attribute(value: str) -> str:
    """`value` for between two quotation marks."""
    return html.escape(printable(value, multiline=False))


def script_data(value: Any) -> str:
    """JSON for a script element, which nothing in it can end."""
    dumped = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return dumped.replace("<", "\\u003c")


def element(name: str, content: str, classes: str = "", **attributes: str) -> str:
    """`content` is HTML, `attributes` are texts."""
    given = {"class": classes, **attributes} if classes else attributes
    told = "".join(f' {key.replace("_", "-")}="{attribute(value)}"' for key, value in given.items())
    return f"<{name}{told}>{content}</{name}>"


def facts(pairs: Mapping[str, str]) -> str:
    """A list of names, each with its value, which is HTML; empty ones are left out."""
    rows = (f"<div><dt>{line(name)}</dt><dd>{value}</dd></div>" for name, value in pairs.items())
    return f'<dl class="facts">{"".join(rows)}</dl>'


def fold(summary: str, body: str, classes: str = "", *, opened: bool = False) -> str:
    """`body` under a line that opens and closes it; both are HTML."""
    named = f' class="{classes}"' if classes else ""
    is_open = " open" if opened else ""
    return f"<details{named}{is_open}><summary>{summary}</summary>{body}</details>"


def joined(parts: Iterable[str], separator: str = " · ") -> str:
    return separator.join(part for part in parts if part)


@dataclass
class ImageRoom:
    """Bytes that are left for images, and those that one may have."""

    left: int
    one: int


@dataclass(frozen=True)
class Room:
    """How many characters of one text the page takes, and how much of images; `session` has the
    rest."""

    session: str
    characters: int
    images: ImageRoom

    def pre(self, content: str, event: int, classes: str = "") -> str:
        """Text as it is, its middle left out where it is too long."""
        return element("pre", self.clipped(content, event), classes)

    def clipped(self, content: str, event: int) -> str:
        """The same without an element of its own."""
        head, left_out, tail = self._cut(content)
        if not left_out:
            return text(head)
        return text(head) + self.note(count(left_out, "character"), event) + text(tail)

    def note(self, left_out: str, event: int) -> str:
        """What stands in its place."""
        rest = f"agent sessions show {line(self.session)} --event {event}"
        return f'<span class="cut">… {left_out} not on this page: <code>{rest}</code> …</span>'

    def _cut(self, content: str) -> tuple[str, int, str]:
        """What is shown, how many characters are not, and what is shown after them."""
        if len(content) <= self.characters + min(400, self.characters // 4):
            return content, 0, ""
        head, tail = content[: self.characters * 2 // 3], content[-self.characters // 3 :]
        head = head[: head.rfind("\n") + 1] or head
        tail = tail[tail.find("\n") + 1 :] or tail
        return head, len(content) - len(head) - len(tail), tail

    def image(self, url: str, event: int) -> str:
        """The image itself, if it is part of the session and small enough."""
        if not _IMAGE.fullmatch(url):
            about = url.partition(",")[0] if url.startswith("data:") else url
            return f'<p class="cut">an image that is not shown: {line(about[:200])}</p>'
        if len(url) > min(self.images.one, self.images.left):
            size = f"{len(url) * 3 // 4 // 1024:,} KB"
            return f'<p class="cut">an image of {size} is not on this page</p>'
        self.images.left -= len(url)
        return f'<img src="{url}" alt="image of event {event}">'
