"""When it pays to mask long results early: recorded sessions, priced as each provider does.

A session is a folder of the bodies of its requests (Chat Completions, one `NNNN.request.json` a
request, as they are or under `body`). A result of at least so many tokens is masked some requests
after it was first sent: from there on a note stands in its place, and all that follows it must be
written to the cache again. A masked result of which a later reply quotes a line is recalled: one
request more, with its text. `at best` leaves those recalls out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.condensing.prices import MODELS, Model, Sent, listed

_NOTE_TOKENS = 40
_RECALL_OUTPUT = 40
_PAUSE_S = 12.0
_LEAST_LINE = 24
"""Characters of a line by which a reply that quotes it is known."""
LEAST_TOKENS = (1_000, 2_500)
DELAYS = (1, 2, 4, 8)


@dataclass(frozen=True)
class Part:
    """A message: its tokens, and for a result the lines by which it is known when it is quoted."""

    tokens: int
    lines: frozenset[str] = frozenset()
    is_result: bool = False


@dataclass(frozen=True)
class Turn:
    """What a request has beyond the one before, and the reply: its tokens and what it says."""

    new: tuple[Part, ...]
    output: int
    said: str


@dataclass(frozen=True)
class Recorded:
    """`fixed`: tokens of system text and tools."""

    fixed: int
    turns: tuple[Turn, ...]


def recorded(folder: Path) -> list[Recorded]:
    """Every session below `folder`, by name. Raises OSError, ValueError for what is none."""
    places = sorted({path.parent for path in folder.rglob("*.request.json")})
    return [session for place in places if (session := _session(place)).turns]


def _session(place: Path) -> Recorded:
    bodies = [json.loads(path.read_text()) for path in sorted(place.glob("*.request.json"))]
    bodies = [body.get("body", body) for body in bodies]
    bodies = [body for body in bodies if body.get("tools")]
    turns: list[Turn] = []
    fixed = known = 0
    for body, following in zip(bodies, [*bodies[1:], None], strict=True):
        messages: list[dict[str, Any]] = body["messages"]
        fixed = fixed or _tokens([body["tools"], messages[0]])
        reply = following["messages"][len(messages)] if following else {}
        new = tuple(_part(message) for message in messages[max(known, 1) :])
        turns.append(Turn(new, _tokens(reply), _said(reply)))
        known = len(messages)
    return Recorded(fixed, tuple(turns))


def _part(message: dict[str, Any]) -> Part:
    if message["role"] != "tool":
        return Part(_tokens(message))
    texts = (line.split("\t")[-1].strip() for line in str(message["content"]).split("\n"))
    lines = frozenset(text for text in texts if len(text) >= _LEAST_LINE)
    return Part(_tokens(message), lines, is_result=True)


def _said(reply: dict[str, Any]) -> str:
    """What a reply says, in its text and in what it calls with."""
    calls = (call["function"]["arguments"] for call in reply.get("tool_calls") or ())
    values = (value for call in calls for value in json.loads(call).values())
    return "\n".join(map(str, (reply.get("content") or "", *values)))


def _tokens(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()) // 4


def chained(sessions: Sequence[Recorded]) -> Recorded:
    """All of them as one session, task after task."""
    return Recorded(sessions[0].fixed, tuple(turn for each in sessions for turn in each.turns))


def requests(session: Recorded, least: int, delay: int, *, recalls: bool) -> Iterator[Sent]:
    """What is sent when results of `least` tokens are masked `delay` requests after their first;
    `delay` 0: never."""
    sizes: list[int] = []
    parts: list[Part] = []
    due: list[tuple[int, int]] = []
    masked: dict[int, Part] = {}
    for number, turn in enumerate(session.turns):
        shared = len(sizes)
        for index in [index for when, index in due if when == number]:
            masked[index] = parts[index]
            sizes[index] = _NOTE_TOKENS
            shared = min(shared, index)
        for part in turn.new:
            if delay and part.is_result and part.tokens >= least:
                due.append((number + delay, len(parts)))
            parts.append(part)
            sizes.append(part.tokens)
        yield _sent(session, sizes, shared if number else None, turn.output)
        if not recalls:
            continue
        for index, part in list(masked.items()):
            if any(line in turn.said for line in part.lines):
                before = len(sizes)
                sizes.append(part.tokens + _RECALL_OUTPUT)
                parts.append(part)
                del masked[index]
                yield _sent(session, sizes, before, _RECALL_OUTPUT)


def _sent(session: Recorded, sizes: Sequence[int], shared: int | None, output: int) -> Sent:
    return Sent(
        prompt=session.fixed + sum(sizes),
        shared=0 if shared is None else session.fixed + sum(sizes[:shared]),
        fixed=session.fixed,
        blocks_after_shared=0 if shared is None else len(sizes) - shared,
        idle_s=_PAUSE_S,
        output=output,
    )


def steps_to_pay(model: Model, tokens: int, after: int) -> float:
    """Steps that must follow before masking a result of `tokens`, with so many tokens behind it
    that are sent already, has paid for what it has written anew."""
    again = after * max(model.cache_write - model.cache_read, 0.0)
    return again / (max(tokens - _NOTE_TOKENS, 1) * model.cache_read)


def report(folder: Path) -> Iterator[str]:
    """Markdown: each session by itself, and all in a row."""
    sessions = recorded(folder)
    results = [p.tokens for s in sessions for t in s.turns for p in t.new if p.is_result]
    growth = [sum(p.tokens for p in t.new) for s in sessions for t in s.turns[1:]]
    fat = [size for size in results if size >= LEAST_TOKENS[0]] or [0]
    models = [listed(name) for name in MODELS]
    steps = [len(session.turns) for session in sessions]
    yield (
        f"{len(sessions)} sessions of {min(steps)} to {max(steps)} requests; a step adds "
        f"{median(growth):,.0f} tokens, {len(fat)} of {len(results)} results have "
        f"{LEAST_TOKENS[0]:,} or more, {sum(fat) / max(sum(results), 1):.0%} of the text of all."
    )
    yield ""
    yield "Steps that must follow until masking a median long result has paid, by requests since:"
    yield "| model | " + " | ".join(map(str, DELAYS)) + " |"
    yield "|---|" + "--:|" * len(DELAYS)
    size, step = int(median(fat)), int(median(growth))
    for model in models:
        needed = (steps_to_pay(model, size, step * delay) for delay in DELAYS)
        yield f"| {model.name} | " + " | ".join(f"{each:.0f}" for each in needed) + " |"
    yield ""
    yield "Cost with masking to cost without: at best / with recalls of what is quoted later:"
    yield "| model | sessions | least tokens | " + " | ".join(f"after {d}" for d in DELAYS) + " |"
    yield "|---|---|--:|" + "--:|" * len(DELAYS)
    for name, group in (("each alone", sessions), ("in a row", [chained(sessions)])):
        for model in models:
            for least in LEAST_TOKENS:
                cells = (_cell(group, model, least, delay) for delay in DELAYS)
                yield f"| {model.name} | {name} | {least:,} | " + " | ".join(cells) + " |"


def _cell(group: Sequence[Recorded], model: Model, least: int, delay: int) -> str:
    def cost(delay: int, *, recalls: bool) -> float:
        return sum(model.bill(requests(s, least, delay, recalls=recalls)).usd for s in group)

    plain = cost(0, recalls=False)
    return f"{cost(delay, recalls=False) / plain:.2f} / {cost(delay, recalls=True) / plain:.2f}"
