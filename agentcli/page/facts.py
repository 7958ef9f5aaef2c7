"""Renders the header of the page: what the session is, what it used and how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from agentcli.events.observations import AgentStateChangedObservation
from agentcli.evidence import Evidence
from agentcli.evidence.fold import evidence_of
from agentcli.page.history import History
from agentcli.page.markup import element, facts, fold, line
from agentcli.page.timeline import time_element
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
    told = facts({name: value for name, value in _facts(history) if value})
    because = element("p", line(why), "why") if why else ""
    return about + title + because + told


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
    told = (str(history.header[name]) for name in ("created_at", "updated_at"))
    try:
        began, ended = map(datetime.fromisoformat, told)
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
    first, *rest = map(_linked, evidence_lines(evidence))
    stands = element(
        "span", first.removeprefix("evidence: "), _EVIDENCE_CLASSES.get(evidence.status, "warn")
    )
    items = "".join(f"<li>{each}</li>" for each in rest)
    return stands + (f"<ul>{items}</ul>" if items else "")


def _linked(told: str) -> str:
    return _EVENT.sub(r'<a href="#event-\1">\g<0></a>', line(told.strip()))


def _ending(history: History) -> tuple[str, str]:
    """Return how the session ended, and why if it did not end well."""
    changes = (e for e in reversed(history.events) if isinstance(e, AgentStateChangedObservation))
    last = next(changes, None)
    ended = how_it_ended(str(history.header["state"]), last.exit_code if last else None)
    why = (last.content or last.reason.replace("_", " ")) if last else ""
    return ended, "" if ended in ("finished", "not started") else why.split("\n", 1)[0]
