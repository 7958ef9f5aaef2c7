"""The whole page: head, timeline, and the one script and style that it allows itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from string import Template

from agentcli import __version__
from agentcli.page.facts import heading, title_of
from agentcli.page.history import History
from agentcli.page.markup import ImageRoom, Room, attribute, line, script_data
from agentcli.page.plots import plots, series_of
from agentcli.page.timeline import Children, Timeline, contents
from agentcli.page.windows import window_data

MOST_BYTES = 4_500_000
"""A page is made no larger, as long as texts can be cut."""
_ROOMS = (40_000, 16_000, 8_000, 4_000, 2_000, 1_000, 500)
"""Characters of one text: the first of these with which the page is small enough."""
_IMAGES, _ONE_IMAGE = 1_500_000, 500_000
"""Bytes of all, and of one."""


def page(history: History) -> Iterator[str]:
    """The page piece by piece."""
    session = str(history.header["session_id"])
    tried = (_turns(history, session, characters) for characters in _ROOMS)
    turns = next(parts for parts in tried if parts is not None)
    style, script = _asset("page.css"), _asset("page.js")
    series = series_of(history)
    before, after = (
        Template(_asset("page.html"))
        .substitute(
            policy=attribute(_policy(style, script)),
            version=__version__,
            title=line(title_of(history)),
            style=style,
            heading=heading(history),
            turns=contents(history),
            plots=plots(series),
            steps=max(len(series.read), 1),
            session=line(session),
            data=script_data(window_data(history, series)),
            script=script,
            timeline="\0",
        )
        .split("\0")
    )
    yield before
    yield from turns
    yield after


def _turns(history: History, session: str, characters: int) -> list[str] | None:
    """The timeline with no more than so many `characters` of each text; None where it is too large
    and there could be fewer."""
    room = Room(session, characters, ImageRoom(_IMAGES, _ONE_IMAGE))
    parts: list[str] = []
    size = 0
    for part in Timeline(history, room, Children()).turns():
        parts.append(part)
        size += len(part.encode(errors="replace"))
        if size > MOST_BYTES and characters > _ROOMS[-1]:
            return None
    return parts


def _policy(style: str, script: str) -> str:
    """Nothing is fetched, sent or run but this page's own script and style, by their digests."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {_digest(script)}",
            f"style-src {_digest(style)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
        )
    )


def _digest(content: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
