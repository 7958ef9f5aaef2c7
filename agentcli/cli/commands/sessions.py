"""Sessions: list, show, search, rename, remove, export, import, copy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Annotated

from agentcli.cli.command import Command, CommandTarget, Report, ShellTarget, folder_of
from agentcli.cli.options import (
    Everywhere,
    Json,
    Last,
    NoPager,
    OneSession,
    SessionOption,
    SessionOrNewest,
    Yes,
    argument,
    option,
)
from agentcli.cli.sessions.rows import (
    age,
    costs,
    kept_outputs,
    label,
    session_as_dict,
    session_facts,
    session_row,
    status_text,
    table,
)
from agentcli.cli.sessions.selector import clean_up_interrupted_work, selected_session
from agentcli.cli.sessions.transfer import copy, export, import_sessions, repair
from agentcli.cli.terminal import confirmed, paged
from agentcli.cli.user_paths import here, home
from agentcli.errors import AgentError, UsageError
from agentcli.events import Source, event_to_dict
from agentcli.events.actions import RenameAction
from agentcli.evidence.fold import evidence_of
from agentcli.sessions import search_index
from agentcli.sessions.finder import (
    FoundSession,
    SessionTree,
    find,
    free_name,
    session_states,
    state_of,
)
from agentcli.sessions.history import totals
from agentcli.sessions.library import library_of
from agentcli.sessions.session import SessionRecord, read_session
from agentcli.sessions.state import State
from agentcli.sessions.store import Holder
from agentcli.sessions.upkeep import PruneRule, parse_age, size_of, to_prune, updated_at, use_of
from agentcli.sessions.upkeep import remove as remove_session
from agentcli.ui.choices import choice_row
from agentcli.ui.outputs import UNFOLDED, Folding
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.screen import Screen
from agentcli.ui.summary import count, evidence_lines, money, tokens_used
from agentcli.ui.text import Span, printable, say_note
from agentcli.ui.transcript import events_of_call, render_conversation, render_event
from agentcli.workspace.names import size_text


def list_sessions(
    everywhere: Everywhere = False,
    limit: Annotated[int | None, option("--limit, -n N", "Only the newest.", min=1)] = None,
    children: Annotated[
        bool, option("--children", "With those that they have delegated to.")
    ] = False,
    no_pager: NoPager = False,
    as_json: Json = False,
) -> None:
    """List the sessions of this folder, the most recently used first.

    Examples:
      agent sessions list
      agent sessions list --all -n 20
      agent sessions list --children
    """
    clean_up_interrupted_work()
    workspace = None if everywhere else str(here())
    tree = SessionTree(session_states(home(), workspace))
    found = list(islice(tree.roots(), limit))
    if children:
        found = [each for head in found for each in (head, *_below(tree, head[0].name))]
    users = library_of(home()).holders([folder.name for folder, _ in found])
    if as_json:
        pids = {session_id: user.pid for session_id, user in users.items()}
        rows = (
            {**session_as_dict(folder, s), "in_use_by": pids.get(folder.name)}
            for folder, s in found
        )
        print(json.dumps(list(rows), indent=2))
    elif not found:
        other = "" if everywhere else f" in {workspace} (all: agent sessions list --all)"
        print(f"no sessions{other}", file=sys.stderr)
    elif sys.stdout.isatty():
        with paged(no_pager):
            _print_table(found, everywhere)
    else:
        for folder, state in found:
            print(_plain_row(folder, state, users.get(folder.name), everywhere))


def _below(tree: SessionTree, session_id: str) -> Iterator[tuple[Path, State]]:
    """Yield its children, whose titles get a prefix that sets them apart from it."""
    for folder, state in tree.descendants(session_id):
        depth = "  " * (state.delegate_level - 1)
        yield folder, replace(state, title=f"{depth}└ {state.agent_name}: {state.title}")


def _print_table(found: list[tuple[Path, State]], everywhere: bool) -> None:
    screen = Screen(sys.stdout, live=False)
    sessions = [FoundSession(folder, state) for folder, state in found]
    for each, facts in zip(sessions, session_facts(sessions, with_id=True), strict=True):
        line = session_row(each, facts, with_place=everywhere)
        screen.put("note", [choice_row(line, screen.width)])
    screen.flush()


def _plain_row(folder: Path, state: State, user: Holder | None, everywhere: bool) -> str:
    when = f"{updated_at(folder, state).astimezone():%Y-%m-%d %H:%M}"
    where = f"  {printable(state.workspace, multiline=False)}" if everywhere else ""
    cost = f"${state.cost_usd:.2f}" if state.cost_usd is not None else "$?"
    facts = f"{folder.name}  {when}  {status_text(state, user):<15} {cost:>8}"
    return f"{facts}{where}  {label(state)}"


def show_session(
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
    """Show a session: its conversation, cost, state and evidence.

    Long outputs, code and changes are folded; the number shown there, given to --event, shows that
    call in full. --full folds nothing. At a terminal, anything longer than the screen goes through
    $PAGER.

    Examples:
      agent sessions show                 # the newest one here
      agent sessions show parser --event 5
      agent sessions show parser --full
    """
    folder = selected_session(named, session, last=last)
    if cost:
        cost_of(ShellTarget(folder)).show(as_json=as_json)
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


def cost_of(target: CommandTarget) -> Report:
    """Show what this session has used: tokens and USD.

    The rows are by model and role (the main work, summaries, ratings of risk), then by child.
    """
    folder = folder_of(target)
    state = target.session.state if target.opened else state_of(folder)
    told = costs(folder, state)
    return Report([[Span(row)] for row in table(told)], data=told)


COST = Command(cost_of)


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
    """Search what was said, run, read and printed.

    The best hits come first; of equally good hits, the newer ones. Exits 1 when nothing is found.

    Examples:
      agent sessions search "connection reset"
    """
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


def rename(
    session: OneSession,
    name: Annotated[str, argument("NAME", "The new name.")],
    as_json: Json = False,
) -> None:
    """Give a session a name.

    Every command that takes the id of a session also takes its name.

    Examples:
      agent sessions rename parser reader
    """
    named(ShellTarget(find(home(), session)), name).show(as_json=as_json)


def named(target: CommandTarget, name: str) -> Report:
    folder = folder_of(target)
    name = free_name(target.builder.home if target.opened else home(), name, folder)
    with (
        nullcontext(target.open_session().session) if target.opened else target.session_at_rest()
    ) as session:
        session.emit(RenameAction(name=name, source=Source.USER))
        data = session_as_dict(folder, session.state)
    return Report([[Span(f"{folder.name} is now {name}")]], data=data)


RENAME = Command(named, "NAME", lambda text: {"name": text})


def remove(
    sessions: Annotated[list[str], argument("SESSION", "Ids, unique starts of ids, or names.")],
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Remove sessions and the children they delegated to, for good.

    Removes all the given sessions, or none if one of them is in use. Exits 1 when one can't be
    removed.

    Examples:
      agent sessions rm parser --yes
    """
    named = {find(home(), session) for session in sessions}
    every = list(session_states(home()))
    tree = SessionTree(every)
    wanted = named | {folder for each in named for folder, _ in tree.descendants(each.name)}
    for folder in sorted(wanted):
        if use := use_of(folder):
            raise UsageError(f"session {folder.name} is {use}", hint="leave it out, or end it")
    found = [(folder, state) for folder, state in every if folder in wanted]
    return remove_sessions(found, yes, as_json)


def remove_sessions(
    found: list[tuple[Path, State]], yes: bool, as_json: bool, *, dry_run: bool = False
) -> int:
    """List the sessions and, if the user agrees, remove them. Return the exit code."""
    sizes = {folder: size_of(folder) for folder, _ in found}
    if not as_json:
        for folder, state in found:
            when = age(updated_at(folder, state))
            print(f"{folder.name}  {when:<11}  {size_text(sizes[folder]):>9}  {label(state)}")
        print(f"{count(len(found), 'session')}, {size_text(sum(sizes.values()))}")
    gone = found if dry_run else []
    failures = 0
    if found and not dry_run and confirmed(f"remove {count(len(found), 'session')}?", yes):
        for folder, state in found:
            try:
                remove_session(home(), folder)
            except AgentError as error:
                failures += 1
                say_note(error.message)
            else:
                gone.append((folder, state))
        clean_up_interrupted_work()
    freed = sum(sizes[folder] for folder, _ in gone)
    if as_json:
        told = [
            {**session_as_dict(folder, state), "bytes": sizes[folder]} for folder, state in gone
        ]
        print(json.dumps({"dry_run": dry_run, "sessions": told, "bytes": freed}, indent=2))
    elif gone and not dry_run:
        print(f"removed {count(len(gone), 'session')}, {size_text(freed)} freed")
    elif found and not dry_run:
        say_note("nothing was removed")
    return 1 if failures else 0


def prune(
    older_than: Annotated[
        str | None, option("--older-than AGE", "Not used for this long: 12h, 30d, 8w.")
    ] = None,
    keep: Annotated[int | None, option("--keep N", "All but the newest N.", min=0)] = None,
    empty: Annotated[bool, option("--empty", "In which nothing was said.")] = False,
    include_named: Annotated[bool, option("--named", "Those with a name too.")] = False,
    everywhere: Everywhere = False,
    dry_run: Annotated[bool, option("--dry-run", "Only say what would be removed.")] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Remove old sessions of this folder.

    Only sessions that match all given options are removed. Sessions that have a name or are in use
    stay. Exits 1 when one can't be removed.

    Examples:
      agent sessions prune --older-than 30d --dry-run
    """
    if older_than is None and keep is None and not empty:
        raise UsageError("which sessions?", hint="--older-than 30d, --keep 20 or --empty")
    limit = parse_age(older_than) if older_than is not None else None
    rule = PruneRule(limit, keep, empty, include_named)
    workspace = None if everywhere else str(here())
    found = [
        (folder, state)
        for folder, state in to_prune(home(), rule, workspace, datetime.now(UTC))
        if not use_of(folder)
    ]
    return remove_sessions(found, yes, as_json, dry_run=dry_run)


COMMAND = {
    "list": list_sessions,
    "show": show_session,
    "search": search,
    "rename": rename,
    "rm": remove,
    "prune": prune,
    "export": export,
    "import": import_sessions,
    "copy": copy,
    "repair": repair,
}
