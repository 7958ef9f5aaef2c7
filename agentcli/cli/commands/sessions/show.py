"""Show a session: its conversation, cost, state and evidence.

Long outputs, code and changes are folded; the number shown there, given to --event, shows that call
in full. --full folds nothing. At a terminal, anything longer than the screen goes through $PAGER.

Examples:
  agent sessions show                 # the newest one here
  agent sessions show parser --event 5
  agent sessions show parser --full
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, replace
from typing import Annotated

from agentcli.cli.options import Json, Last, NoPager, SessionOption, SessionOrNewest, option
from agentcli.cli.sessions.rows import costs, kept_outputs, session_as_dict, table
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.terminal import paged
from agentcli.errors import UsageError
from agentcli.events import event_to_dict
from agentcli.evidence.fold import evidence_of
from agentcli.sessions.finder import state_of
from agentcli.sessions.history import totals
from agentcli.sessions.session import SessionRecord, read_session
from agentcli.ui.outputs import UNFOLDED, Folding
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import count, evidence_lines, money, tokens_used
from agentcli.ui.text import say_note
from agentcli.ui.transcript import events_of_call, render_conversation, render_event


def show(
    named: SessionOrNewest = None,
    session: SessionOption = None,
    last: Last = False,
    event: Annotated[
        int | None, option("--event NUMBER", "Only this one, in full: a call with its output.")
    ] = None,
    full: Annotated[bool, option("--full", "With nothing folded.")] = False,
    cost: Annotated[bool, option("--cost", "Only what it used, by model, part and child.")] = False,
    no_pager: NoPager = False,
    as_json: Json = False,
) -> None:
    folder = selected_session(named, session, last=last)
    if cost:
        told = costs(folder, state_of(folder))
        print(json.dumps(told, indent=2) if as_json else "\n".join(table(told)))
        return
    record = read_session(folder)
    if event is not None:
        with paged(no_pager or as_json):
            _show_event(record, event, as_json)
    elif as_json:
        events = [event_to_dict(event) for event in record.events]
        told = {
            **session_as_dict(folder, record.state),
            "evidence": asdict(evidence_of(record.events)),
        }
        print(json.dumps({**told, "events": events}, indent=2))
    else:
        with paged(no_pager, at_end=True):
            _show_conversation(record, full)
    if record.log.fault:
        say_note(f"what follows is damaged: {record.log.fault}")


def _show_conversation(record: SessionRecord, full: bool) -> None:
    kept = kept_outputs(record.folder)
    folding = replace(UNFOLDED, kept_output=kept) if full else Folding(hint="--event {}")
    render_conversation(record.events, sys.stdout, folding)
    state, done = record.state, totals(record.events)
    closing = [
        how_it_ended(state.agent_state, state.exit_code),
        count(done.steps, "step"),
        tokens_used(done.usage),
    ]
    print(" · ".join([*closing, money(done.cost_usd), f"agent resume {record.folder.name}"]))
    for line in evidence_lines(evidence_of(record.events)):
        print(line)


def _show_event(record: SessionRecord, number: int, as_json: bool) -> None:
    events = record.events
    if not 0 <= number < len(events):
        held = f"its events are 0 to {len(events) - 1}" if events else "it has none"
        raise UsageError(f"there is no event {number} in {record.folder.name}: {held}")
    if as_json:
        call = events_of_call(events, number)
        print(json.dumps([event_to_dict(each) for each in call], indent=2))
    else:
        render_event(events, number, kept_outputs(record.folder), sys.stdout)


COMMAND = show
