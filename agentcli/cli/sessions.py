"""`agent sessions`: the records of past and present tasks."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from agentcli.sessions.session import SessionRecord
    from agentcli.sessions.state import State

app = typer.Typer(help="Sessions: list, show.", no_args_is_help=True)

Json = Annotated[bool, typer.Option("--json", help="For programs.")]


@app.command("list")
def list_sessions(
    everywhere: Annotated[
        bool, typer.Option("--all", "-a", help="Of all folders, not only of this one.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Sessions of this folder, newest first."""
    from agentcli.config import state_home
    from agentcli.sessions.finder import session_states
    from agentcli.ui.sanitize import printable
    from agentcli.wiring import resolve_workspace

    here = str(resolve_workspace(None))
    rows = [
        (folder.name, state)
        for folder, state in session_states(state_home(os.environ))
        if everywhere or state.workspace == here
    ]
    if as_json:
        print(json.dumps([_row(session_id, state) for session_id, state in rows], indent=2))
        return
    if not rows:
        other = "" if everywhere else f" in {here} (all: agent sessions list --all)"
        print(f"no sessions{other}", file=sys.stderr)
    for session_id, state in rows:
        cost = f"${state.cost_usd:.2f}" if state.cost_usd is not None else "$?"
        title = printable(f"{state.name}: {state.title}" if state.name else state.title)
        where = f"  {printable(state.workspace)}" if everywhere else ""
        print(f"{session_id}  {state.agent_state:<9} {cost:>7}  {title[:70]}{where}")


@app.command("show")
def show(
    session: Annotated[
        str | None, typer.Argument(help="Id, unique start of one, or name.", metavar="SESSION")
    ] = None,
    last: Annotated[bool, typer.Option("--last", help="The newest session here.")] = False,
    as_json: Json = False,
) -> None:
    """The conversation of a session as it looked, its cost and state."""
    from agentcli.config import state_home
    from agentcli.errors import UsageError
    from agentcli.events import event_to_dict
    from agentcli.sessions.finder import find, newest
    from agentcli.sessions.session import read_session
    from agentcli.wiring import resolve_workspace

    home = state_home(os.environ)
    if session is None and not last:
        raise UsageError("which session?", hint="agent sessions show --last, or an id")
    folder = newest(home, resolve_workspace(None)) if session is None else find(home, session)
    record = read_session(folder)
    if as_json:
        events = [event_to_dict(event) for event in record.events]
        print(json.dumps({**_row(folder.name, record.state), "events": events}, indent=2))
    else:
        _show_conversation(folder.name, record)
    if record.log.fault:
        print(f"agent: what follows is damaged: {record.log.fault}", file=sys.stderr)


def _show_conversation(session_id: str, record: SessionRecord) -> None:
    from agentcli.sessions.facts import facts
    from agentcli.ui.summary import count, money, tokens_used
    from agentcli.ui.terminal import render_conversation

    render_conversation(record.events, sys.stdout)
    done = facts(record.events)
    closing = [record.state.agent_state, count(done.steps, "step"), tokens_used(done.usage)]
    print(" · ".join([*closing, money(done.cost_usd), f"agent resume {session_id}"]))


def _row(session_id: str, state: State) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "name": state.name,
        "title": state.title,
        "state": state.agent_state,
        "workspace": state.workspace,
        "model": state.model,
        "created_at": state.created_at,
        "updated_at": state.updated_at,
        "steps": state.iteration,
        "prompt_tokens": state.total("prompt_tokens"),
        "completion_tokens": state.total("completion_tokens"),
        "cache_read_tokens": state.total("cache_read_tokens"),
        "cost_usd": state.cost_usd,
        "events": state.end_id + 1,
    }
