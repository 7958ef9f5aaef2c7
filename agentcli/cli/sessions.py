"""`agent sessions`: the records of past and present tasks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli import repair, session_keep, session_search, session_transfer
from agentcli.cli.session_common import (
    Everywhere,
    Json,
    Last,
    Wanted,
    age,
    chosen,
    here,
    home,
    label,
    row,
    tidy,
)
from agentcli.ui.sanitize import say

if TYPE_CHECKING:
    from agentcli.sessions.session import SessionRecord
    from agentcli.sessions.state import State
    from agentcli.ui.style import Line

app = typer.Typer(
    help="Sessions: list, show, search, rename, remove, export, import.",
    no_args_is_help=True,
)

_SHORT_STATES = {
    "awaiting_user_input": "waits",
    "awaiting_user_confirmation": "asks",
    "user_confirmed": "running",
    "user_rejected": "running",
    "rate_limited": "waits",
}
_LONGEST_WORKSPACE = 40


@app.command("list")
def list_sessions(
    everywhere: Everywhere = False,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="Only the newest.", metavar="N")
    ] = None,
    as_json: Json = False,
) -> None:
    """Sessions of this folder, newest first."""
    from itertools import islice

    from agentcli.sessions.search.finder import session_states

    tidy()
    workspace = str(here())
    mine = (
        (folder, state)
        for folder, state in session_states(home())
        if everywhere or state.workspace == workspace
    )
    found = list(islice(mine, limit))
    if as_json:
        print(json.dumps([row(folder.name, state) for folder, state in found], indent=2))
    elif not found:
        other = "" if everywhere else f" in {workspace} (all: agent sessions list --all)"
        print(f"no sessions{other}", file=sys.stderr)
    elif sys.stdout.isatty():
        _print_table(found, everywhere)
    else:
        for folder, state in found:
            print(_plain_row(folder, state, everywhere))


def _print_table(found: list[tuple[Path, State]], everywhere: bool) -> None:
    from agentcli.ui.screen import Screen

    screen = Screen(sys.stdout, live=False)
    room = _LONGEST_WORKSPACE if everywhere and screen.width >= 100 else 0
    for folder, state in found:
        screen.put("note", [_table_row(folder, state, room)], whole=False)
    screen.flush()


def _table_row(folder: Path, state: State, workspace_room: int) -> Line:
    from agentcli.sessions.manage.retention import updated_at
    from agentcli.ui.sanitize import printable
    from agentcli.ui.style import Span, cells, clip, plain

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
    from agentcli.sessions.manage.retention import updated_at
    from agentcli.ui.sanitize import printable

    when = f"{updated_at(folder, state).astimezone():%Y-%m-%d %H:%M}"
    where = f"  {printable(state.workspace, multiline=False)}" if everywhere else ""
    facts = f"{folder.name}  {when}  {state.agent_state:<9} {_cost(state):>8}"
    return f"{facts}{where}  {label(state)}"


def _cost(state: State) -> str:
    return f"${state.cost_usd:.2f}" if state.cost_usd is not None else "$?"


@app.command("show")
def show(
    session: Wanted = None,
    last: Last = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Only what it used, by model and part.")
    ] = False,
    as_json: Json = False,
) -> None:
    """The conversation of a session as it looked, its cost and state."""
    from agentcli.cli.session_cost import show_cost
    from agentcli.events import event_to_dict
    from agentcli.sessions.session import read_session

    folder = chosen(session, last, "sessions show")
    if cost:
        show_cost(folder, as_json=as_json)
        return
    record = read_session(folder)
    session_id = record.folder.name
    if as_json:
        events = [event_to_dict(event) for event in record.events]
        print(json.dumps({**row(session_id, record.state), "events": events}, indent=2))
    else:
        _show_conversation(session_id, record)
    if record.log.fault:
        say(f"agent: what follows is damaged: {record.log.fault}", sys.stderr)


def _show_conversation(session_id: str, record: SessionRecord) -> None:
    from agentcli.sessions.search.session_facts import facts
    from agentcli.ui.summary import count, money, tokens_used
    from agentcli.ui.terminal import render_conversation

    render_conversation(record.events, sys.stdout)
    done = facts(record.events)
    closing = [record.state.agent_state, count(done.steps, "step"), tokens_used(done.usage)]
    print(" · ".join([*closing, money(done.cost_usd), f"agent resume {session_id}"]))


app.command("search")(session_search.search_sessions)
app.command("rename")(session_keep.rename)
app.command("rm")(session_keep.remove_sessions)
app.command("prune")(session_keep.prune)
app.command("export")(session_transfer.export_session)
app.command("import")(session_transfer.import_sessions)
app.command("repair")(repair.repair)
