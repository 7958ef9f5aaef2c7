"""Search what was said, run, read and printed.

The best hits come first; of equally good hits, the newer ones. Exits 1 when nothing is found.

Examples:
  agent sessions search "connection reset"
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated

from agentcli.cli.options import Everywhere, Json, NoPager, argument, option
from agentcli.cli.sessions.rows import age
from agentcli.cli.terminal import paged
from agentcli.cli.user_paths import here, home
from agentcli.sessions import search_index
from agentcli.ui.screen import Screen
from agentcli.ui.text import Span, printable


def search(
    query: Annotated[
        list[str],
        argument(
            "QUERY", 'Words that must all occur, "a phrase", or the beginning of a word: begin*.'
        ),
    ],
    everywhere: Everywhere = False,
    limit: Annotated[int, option("--limit, -n N", "At most N hits.", min=1)] = 20,
    rebuild: Annotated[bool, option("--rebuild", "Rebuild the index first.")] = False,
    no_pager: NoPager = False,
    as_json: Json = False,
) -> int:
    workspace = None if everywhere else str(here())
    hits = search_index.search(home(), " ".join(query), workspace, limit=limit, rebuild=rebuild)
    if as_json:
        rows = [{**asdict(hit), "time": hit.time.isoformat()} for hit in hits]
        print(json.dumps(rows, indent=2))
    elif hits:
        with paged(no_pager):
            _print_hits(hits)
    else:
        other = "" if everywhere else f" in sessions of {workspace} (in all: --all)"
        print(f"nothing found{other}", file=sys.stderr)
    return 0 if hits else 1


def _print_hits(hits: list[search_index.Hit]) -> None:
    screen = Screen(sys.stdout, live=False)
    for hit in hits:
        if screen.rich:
            head = f"  event {hit.event_id}  {hit.kind}  {age(hit.time)}"
            screen.put("note", [[Span(hit.session_id, "cyan"), Span(head, "dim")]])
            screen.put("note", [[Span("    "), *_snippet(hit)]])
        else:
            when = f"{hit.time.astimezone():%Y-%m-%d %H:%M}"
            head = f"{hit.session_id} {hit.event_id:>5}  {when}  {hit.kind:<6}  "
            screen.put("note", [[Span(head), *_snippet(hit)]])
    screen.flush()


def _snippet(hit: search_index.Hit) -> Iterator[Span]:
    end = 0
    for start, stop in hit.marks:
        yield Span(printable(hit.snippet[end:start], multiline=False))
        yield Span(printable(hit.snippet[start:stop], multiline=False), "bold")
        end = stop
    yield Span(printable(hit.snippet[end:], multiline=False))


COMMAND = search
