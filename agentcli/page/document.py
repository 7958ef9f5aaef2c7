"""Assembles the page: header, timeline, and the only script and style that its policy allows."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from string import Template

from agentcli import __version__
from agentcli.events.observations import AgentStateChangedObservation
from agentcli.evidence import Evidence
from agentcli.evidence.fold import evidence_of
from agentcli.page.markup import (
    Clipper,
    ImageBudget,
    attribute,
    element,
    facts,
    fold,
    line,
    script_json,
)
from agentcli.page.steps import plots, series_of, window_data
from agentcli.page.timeline import History, Timeline, time_element, turn_links
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import count, evidence_lines, money, quantity, whole_seconds

_ENDING_CLASSES = {"finished": "ok", "failed": "bad", "gave up": "bad"}
_EVIDENCE_CLASSES = {"passed": "ok", "failed": "bad"}
_MOST_FILES = 200
_EVENT = re.compile(r"\bevent (\d+)\b")


def title_of(history: History) -> str:
    """Return the task in the user's words, on one line."""
    header = history.header
    task = next((turn.said.message for turn in history.turns if turn.said is not None), "")
    return " ".join(str(task or header["title"] or header["session_id"]).split())


def heading(history: History) -> str:
    """Return the header as HTML."""
    header = history.header
    ended, why = _ending(history)
    badge = element("span", line(ended), f"badge {_ENDING_CLASSES.get(ended, 'warn')}")
    session = element("code", line(str(header["session_id"])))
    name = f" ({line(str(header['name']))})" if header["name"] else ""
    about = f'<p class="about">agent session {session}{name} {badge}</p>'
    title = element("h1", line(title_of(history)))
    rows = facts({name: value for name, value in _facts(history) if value})
    because = element("p", line(why), "why") if why else ""
    return about + title + because + rows


def _facts(history: History) -> Iterator[tuple[str, str]]:
    header, usage = history.header, history.header["usage"]
    turns = sum(turn.said is not None for turn in history.turns)
    steps = sum(1 for _ in history.steps)
    read, written = usage["prompt_tokens"], usage["completion_tokens"]
    cached = 100 * usage["cache_read_tokens"] // max(read, 1)
    yield "Model", line(", ".join(_models(history)))
    yield "Workspace", element("code", line(str(header["workspace"])))
    yield "When", _when(history)
    yield "Work", f"{count(turns, 'turn')}, {count(steps, 'step')}"
    tokens = f"{quantity(read)} read ({cached} % cached), {quantity(written)} written"
    yield "Tokens", tokens if read or written else ""
    yield "Cost", line(money(header["cost_usd"]))
    children = len(history.children)
    yield "Children", count(children, "session") if children else ""
    evidence = evidence_of(history.events)
    yield "Changed", _changed(evidence.files_changed)
    yield "Evidence", _evidence(evidence) if evidence.status_text else ""


def _models(history: History) -> list[str]:
    """Return the models that answered, the main one first."""
    used = [str(history.header["model"])]
    used += [e.llm_metrics.model for e in history.events if e.llm_metrics is not None]
    bare = {name.partition("/")[2]: name for name in used if "/" in name}
    return list(dict.fromkeys(bare.get(name, name) for name in used if name))


def _when(history: History) -> str:
    times = (str(history.header[name]) for name in ("created_at", "updated_at"))
    try:
        began, ended = map(datetime.fromisoformat, times)
    except ValueError:
        return ""
    took = whole_seconds(round((ended - began).total_seconds()))
    return f"{time_element(began, '%Y-%m-%d %H:%M')}, {took} to the last event"


def _changed(files: Sequence[str]) -> str:
    if not files:
        return ""
    items = "".join(f"<li><code>{line(path)}</code></li>" for path in files[:_MOST_FILES])
    more = len(files) - _MOST_FILES
    rest = f"<li>and {more:,} more</li>" if more > 0 else ""
    return fold(count(len(files), "file"), f"<ul>{items}{rest}</ul>")


def _evidence(evidence: Evidence) -> str:
    """Return what the log proves, with links to its events."""
    first, *rest = (
        _EVENT.sub(r'<a href="#event-\1">\g<0></a>', line(each.strip()))
        for each in evidence_lines(evidence)
    )
    stands = element(
        "span", first.removeprefix("evidence: "), _EVIDENCE_CLASSES.get(evidence.status, "warn")
    )
    items = "".join(f"<li>{each}</li>" for each in rest)
    return stands + (f"<ul>{items}</ul>" if items else "")


def _ending(history: History) -> tuple[str, str]:
    """Return how the session ended, and why if it did not end well."""
    changes = (e for e in reversed(history.events) if isinstance(e, AgentStateChangedObservation))
    last = next(changes, None)
    ended = how_it_ended(str(history.header["state"]), last.exit_code if last else None)
    why = (last.content or last.reason.replace("_", " ")) if last else ""
    return ended, "" if ended in ("finished", "not started") else why.split("\n", 1)[0]


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
    for part in Timeline(history, clipper, {}).turns():
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
