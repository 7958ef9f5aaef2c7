"""The conversation of a session as it looked, its cost and state."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer

from agentcli.cli.session_common import Json, row
from agentcli.cli.session_costs import show_cost
from agentcli.cli.session_selector import Last, Named, SessionOption, selected
from agentcli.events import event_to_dict
from agentcli.sessions.search.session_facts import facts
from agentcli.sessions.session import SessionRecord, read_session
from agentcli.ui.sanitize import say
from agentcli.ui.summary import count, money, tokens_used
from agentcli.ui.terminal import render_conversation


def show(
    named: Named = None,
    session: SessionOption = None,
    last: Last = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Only what it used, by model and part.")
    ] = False,
    as_json: Json = False,
) -> None:
    folder = selected(named, session, last=last)
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
    render_conversation(record.events, sys.stdout)
    done = facts(record.events)
    closing = [record.state.agent_state, count(done.steps, "step"), tokens_used(done.usage)]
    print(" · ".join([*closing, money(done.cost_usd), f"agent resume {session_id}"]))


COMMAND = show
