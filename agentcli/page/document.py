"""Assembles the page: head, timeline, and the only script and style that its policy allows."""

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
from agentcli.page.markup import Clipper, ImageBudget, attribute, line, script_json
from agentcli.page.plots import plots, series_of
from agentcli.page.timeline import ChildPrefixes, Timeline, turn_links
from agentcli.page.windows import window_data

MOST_BYTES = 4_500_000
"""Size that the timeline may have, as long as shorter texts can make it smaller."""
_TEXT_LIMITS = (40_000, 16_000, 8_000, 4_000, 2_000, 1_000, 500)
"""Characters of one text; the first limit is used that makes the page small enough."""
_ALL_IMAGES, _ONE_IMAGE = 1_500_000, 500_000
"""Bytes."""


def render_page(history: History) -> Iterator[str]:
    """Yield the page of a session in pieces."""
    session = str(history.header["session_id"])
    tried = (_turns(history, session, characters) for characters in _TEXT_LIMITS)
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
            turns=turn_links(history),
            plots=plots(series),
            steps=max(len(series.read), 1),
            session=line(session),
            data=script_json(window_data(history, series)),
            script=script,
            timeline="\0",
        )
        .split("\0")
    )
    yield before
    yield from turns
    yield after


def _turns(history: History, session: str, characters: int) -> list[str] | None:
    """Return the timeline with at most that many `characters` of each text, None if it is too large
    and a lower limit is left."""
    clipper = Clipper(session, characters, ImageBudget(_ALL_IMAGES, _ONE_IMAGE))
    parts: list[str] = []
    size = 0
    for part in Timeline(history, clipper, ChildPrefixes()).turns():
        parts.append(part)
        size += len(part.encode(errors="replace"))
        if size > MOST_BYTES and characters > _TEXT_LIMITS[-1]:
            return None
    return parts


def _policy(style: str, script: str) -> str:
    """Return the Content-Security-Policy: nothing is fetched or sent, and only the script and style
    with these digests are used."""
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
