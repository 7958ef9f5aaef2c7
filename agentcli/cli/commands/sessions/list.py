"""List the sessions of this folder, the most recently used first.

Examples:
  agent sessions list
  agent sessions list --all -n 20
  agent sessions list --children
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Annotated

from agentcli.cli.options import Everywhere, Json, NoPager, option
from agentcli.cli.sessions.rows import (
    label,
    session_as_dict,
    session_facts,
    session_row,
    status_text,
)
from agentcli.cli.sessions.selector import clean_up_interrupted_work
from agentcli.cli.terminal import paged
from agentcli.cli.user_paths import here, home
from agentcli.sessions.finder import FoundSession, SessionTree, session_states
from agentcli.sessions.library import library_of
from agentcli.sessions.state import State
from agentcli.sessions.store import Holder
from agentcli.sessions.upkeep import updated_at
from agentcli.ui.choices import choice_row
from agentcli.ui.screen import Screen
from agentcli.ui.text import printable


def list_sessions(
    everywhere: Everywhere = False,
    limit: Annotated[int | None, option("--limit, -n N", "Only the newest.", min=1)] = None,
    children: Annotated[
        bool, option("--children", "With those that they have delegated to.")
    ] = False,
    no_pager: NoPager = False,
    as_json: Json = False,
) -> None:
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


COMMAND = list_sessions
