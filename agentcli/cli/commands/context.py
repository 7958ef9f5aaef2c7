"""Show what fills the model's window.

Each character of the picture stands for a share of the window, # for what is left free for the
reply. Tokens are estimated from what the provider last counted. The biggest parts are listed below
it with their events; compact makes room.

Examples:
  agent context
  agent context parser --json
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Annotated, Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.cli.command import Command, CommandTarget, Report
from agentcli.cli.options import option
from agentcli.events import Event
from agentcli.memory.context_use import ContextUse, Part, Share, context_use
from agentcli.ui.text import Line, Span, Style, cells, clip, printable

_NAMES = {
    "system": "system text",
    "tools": "tools",
    "facts": "workspace",
    "instructions": "instruction files",
    "skills": "skills",
    "notes": "notes",
    "user": "user messages",
    "replies": "replies",
    "results": "results",
    "summaries": "summaries",
    "other": "other",
}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_STYLES: tuple[Style, ...] = ("cyan", "yellow", "green", "red", "bold")
_FREE, _RESERVE = ".", "#"
_LEAST_COLUMNS, _MOST_COLUMNS = 40, 120
_ROWS = 5
_NAME_COLUMNS = 22
_BEFORE_BAR = 48
_MOST_SHARES = 20


def context(
    target: CommandTarget,
    columns: Annotated[
        int | None, option("--columns N", "Width, at most 120.", min=_LEAST_COLUMNS)
    ] = None,
) -> Report:
    session = target.session
    model = session.state.model
    use = use_of(list(session.events), model, target.builder)
    lines = picture(model, use, columns or target.width)
    return Report(lines, data=as_data(session.folder.name, model, use), kind="text")


def use_of(events: Sequence[Event], model: str, builder: AgentBuilder) -> ContextUse:
    """Return what the session's next request to `model` would contain, under the settings of
    `builder`."""
    settings = builder.settings.model
    window = settings.context_tokens or builder.catalog().context_tokens(model)
    output = settings.output_tokens
    return context_use(events, window, output, model.partition("/")[0])


def as_data(session_id: str, model: str, use: ContextUse) -> dict[str, Any]:
    """Return the data for --json: tokens, and shares of the window from 0 to 1."""
    return {
        "session_id": session_id,
        "model": model,
        "window_tokens": use.window,
        "used_tokens": use.used,
        "reserve_tokens": use.reserve,
        "free_tokens": use.free,
        "parts": [
            {
                "kind": share.kind,
                "tool": share.name or None,
                "tokens": share.tokens,
                "share": round(share.tokens / use.window, 4),
            }
            for share in use.shares
        ],
        "biggest": [{**asdict(part), "name": part.name or None} for part in use.biggest],
    }


def picture(model: str, use: ContextUse, columns: int) -> list[Line]:
    """Return the window as rows of characters, with a legend and the biggest parts. No line is
    longer than `columns`, which is limited to 40 to 120."""
    columns = max(_LEAST_COLUMNS, min(columns, _MOST_COLUMNS))
    shares = _merge(use.shares)
    signs = [(_LETTERS[n], _STYLES[n % len(_STYLES)]) for n in range(len(shares))]
    counted = [
        *zip(signs, (share.tokens for share in shares), strict=True),
        ((_FREE, "dim"), use.free),
        ((_RESERVE, "dim"), use.reserve),
    ]
    head = f"{printable(model, multiline=False)}: {use.used:,} of {use.window:,} tokens "
    over = "" if use.used + use.reserve <= use.window else ", more than fits"
    lines: list[Line] = [[Span(head, "bold"), Span(f"({_percent(use.used, use.window)}{over})")]]
    lines += [[], *_grid(counted, columns), []]
    labels = [*map(_label, shares), "free", "reserve for the reply"]
    for ((sign, style), tokens), label in zip(counted, labels, strict=True):
        lines.append(_legend(sign, style, label, tokens, use.window, columns))
    if use.biggest:
        lines += [[], [Span("The biggest parts:", "bold")]]
        lines += [_part(part, use.window) for part in use.biggest]
    return [clip(line, columns) for line in lines]


def _grid(counted: Sequence[tuple[tuple[str, Style], int]], columns: int) -> list[Line]:
    """Return rows of characters; each part has its share of all tokens, at least one character."""
    cells = _cells([tokens for _, tokens in counted], columns * _ROWS)
    signs = [sign for (sign, _), count in zip(counted, cells, strict=True) for _ in range(count)]
    rows: list[Line] = []
    for start in range(0, len(signs), columns):
        runs = groupby(signs[start : start + columns])
        rows.append([Span(sign * len([*run]), style) for (sign, style), run in runs])
    return rows


def _cells(amounts: Sequence[int], total: int) -> list[int]:
    """Divide `total` in proportion to `amounts`, with at least one for each amount that is not 0.
    The largest takes what rounding leaves over."""
    whole = sum(amounts)
    if not whole:
        return [0] * len(amounts)
    cells = [max(1, total * amount // whole) if amount else 0 for amount in amounts]
    cells[max(range(len(cells)), key=cells.__getitem__)] += total - sum(cells)
    return cells


def _legend(sign: str, style: Style, label: str, tokens: int, window: int, columns: int) -> Line:
    name = label + " " * (_NAME_COLUMNS - cells(label))
    room = max(0, columns - _BEFORE_BAR)
    bar = sign * min(room, round(room * tokens / window)) if window else ""
    line = [
        Span(f"  {sign} ", style),
        Span(f"{name} {tokens:>10,} {_percent(tokens, window):>7}"),
    ]
    return [*line, Span(f"  {bar}", style)] if bar else line


def _part(part: Part, window: int) -> Line:
    what = _NAMES[part.kind] if part.kind != "results" else f"result of {part.name}"
    about = printable(part.about, multiline=False)
    return [
        Span(f"  event {part.event_id:<6}"),
        Span(f"{part.tokens:>9,} {_percent(part.tokens, window):>7}  "),
        Span(printable(what, multiline=False), "bold"),
        Span(f"  {about}", "dim"),
    ]


def _merge(shares: Sequence[Share]) -> list[Share]:
    """Merge the results of the least used tools until there are enough letters for all shares."""
    if len(shares) <= _MOST_SHARES:
        return list(shares)

    results = sorted((s for s in shares if s.kind == "results"), key=lambda share: -share.tokens)
    kept = results[: _MOST_SHARES - 1 - (len(shares) - len(results))]
    rest = sum(share.tokens for share in results) - sum(share.tokens for share in kept)
    others = [share for share in shares if share.kind != "results"]
    return [*others, *kept, Share("results", "other tools", rest)]


def _label(share: Share) -> str:
    if share.kind != "results":
        return _NAMES[share.kind]
    text = f"results of {printable(share.name, multiline=False)}"
    return text if len(text) <= _NAME_COLUMNS else f"{text[: _NAME_COLUMNS - 1]}~"


def _percent(tokens: int, window: int) -> str:
    return f"{100 * tokens / window:.1f} %" if window else "?"


CONTEXT = Command(context)
COMMAND = CONTEXT.in_shell(last=True)
