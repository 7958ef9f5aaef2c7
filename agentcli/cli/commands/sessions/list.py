"""Sessions of this folder, the one used last first.

Examples:
  agent sessions list
  agent sessions list --all -n 20
"""

from __future__ import annotations

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from agentcli.cli.pager import NoPager, paged
from agentcli.cli.session_common import (
    Everywhere,
    Json,
    age,
    finish_interrupted_work,
    here,
    home,
    label,
    row,
)
from agentcli.sessions.manage.retention import updated_at
from agentcli.sessions.search.finder import session_states
from agentcli.sessions.state import State
from agentcli.ui.sanitize import printable
from agentcli.ui.screen import Screen
from agentcli.ui.style import Line, Span, cells, clip, plain

_SHORT_STATES = {
    "awaiting_user_input": "waits",
    "awaiting_user_confirmation": "asks",
    "user_confirmed": "running",
    "user_rejected": "running",
    "rate_limited": "waits",
}
_LONGEST_WORKSPACE = 40


def list_sessions(
    everywhere: Everywhere = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only the newest.", metavar="N")
    ] = None,
    no_pager: NoPager = False,
    as_json: Json = False,
) -> None:
    finish_interrupted_work()
    workspace = None if everywhere else str(here())
    found = list(islice(session_states(home(), workspace), limit))
    if as_json:
        print(json.dumps([row(folder.name, state) for folder, state in found], indent=2))
    elif not found:
        other = "" if everywhere else f" in {workspace} (all: agent sessions list --all)"
        print(f"no sessions{other}", file=sys.stderr)
    elif sys.stdout.isatty():
        with paged(no_pager):
            _print_table(found, everywhere)
    else:
        for folder, state in found:
            print(_plain_row(folder, state, everywhere))


def _print_table(found: list[tuple[Path, State]], everywhere: bool) -> None:
    screen = Screen(sys.stdout, live=False)
    room = _LONGEST_WORKSPACE if everywhere and screen.width >= 100 else 0
    for folder, state in found:
        screen.put("note", [_table_row(folder, state, room)], whole=False)
    screen.flush()


def _table_row(folder: Path, state: State, workspace_room: int) -> Line:
    name = _SHORT_STATES.get(state.agent_state, str(state.agent_state))
    failed = state.agent_state in ("error", "rejected")
    line = [
        Span(f"{folder.name:<20}", "bold"),
        Span(f"  {age(updated_at(folder, state)):<11}", "dim"),
        Span(f"  {name:<8}", "red" if failed else ""),
        Span(f" {_cost(state):>8}  "),
    ]
    if workspace_room:
        where = printable(state.workspace, multiline=False)
        if cells(where) > workspace_room:
            where = "…" + where[1 - workspace_room :]
        clipped = plain(clip([Span(where)], workspace_room))
        line.append(Span(clipped + " " * (workspace_room + 2 - cells(clipped)), "dim"))
    return [*line, Span(label(state))]


def _plain_row(folder: Path, state: State, everywhere: bool) -> str:
    when = f"{updated_at(folder, state).astimezone():%Y-%m-%d %H:%M}"
    where = f"  {printable(state.workspace, multiline=False)}" if everywhere else ""
    facts = f"{folder.name}  {when}  {state.agent_state:<9} {_cost(state):>8}"
    return f"{facts}{where}  {label(state)}"


def _cost(state: State) -> str:
    return f"${state.cost_usd:.2f}" if state.cost_usd is not None else "$?"


COMMAND = list_sessions
