"""`agent sessions rename`, `rm` and `prune`: what a session is called, and which ones stay."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agentcli.cli.session_common import (
    Everywhere,
    Json,
    Session,
    Yes,
    age,
    confirmed,
    here,
    home,
    label,
    row,
    tidy,
)
from agentcli.ui.sanitize import say

if TYPE_CHECKING:
    from agentcli.sessions.state import State


def rename(
    session: Session,
    name: Annotated[str, typer.Argument(help="The new name.", metavar="NAME")],
    as_json: Json = False,
) -> None:
    """Give a session a name.

    Every command that takes the id of a session takes its name too.
    """
    from agentcli.events import Source
    from agentcli.events.actions import RenameAction
    from agentcli.sessions.manage.naming import checked_name, require_free
    from agentcli.sessions.search.finder import find
    from agentcli.sessions.session import Session as Opened

    folder = find(home(), session)
    name = checked_name(name)
    require_free(home(), name, folder)
    with Opened.open(folder) as opened:
        opened.emit(RenameAction(name=name, source=Source.USER))
        state = opened.state
    if as_json:
        print(json.dumps(row(folder.name, state), indent=2))
    else:
        print(f"{folder.name} is now {name}")


def remove_sessions(
    sessions: Annotated[
        list[str], typer.Argument(help="Ids, unique starts of ids, or names.", metavar="SESSION")
    ],
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Remove sessions for good.

    All that are given, or none if one of them is in use. Exits 1 when one can't be removed.
    """
    from agentcli.errors import UsageError
    from agentcli.sessions.manage.retention import use_of
    from agentcli.sessions.search.finder import find, session_states

    wanted = {find(home(), session) for session in sessions}
    for folder in sorted(wanted):
        if use := use_of(folder):
            raise UsageError(f"session {folder.name} is {use}", hint="leave it out, or end it")
    found = [(folder, state) for folder, state in session_states(home()) if folder in wanted]
    return _remove(found, yes, as_json)


def prune(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", help="Not used for so long: 12h, 30d, 8w.", metavar="AGE"),
    ] = None,
    keep: Annotated[
        int | None, typer.Option("--keep", min=0, help="All but the newest N.", metavar="N")
    ] = None,
    empty: Annotated[bool, typer.Option("--empty", help="In which nothing was said.")] = False,
    include_named: Annotated[bool, typer.Option("--named", help="Those with a name too.")] = False,
    everywhere: Everywhere = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be removed.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
) -> int:
    """Remove old sessions of this folder.

    What is asked for must hold together. Sessions that have a name or are in use stay. Exits 1
    when one can't be removed.
    """
    from datetime import UTC, datetime

    from agentcli.errors import UsageError
    from agentcli.sessions.manage.retention import PruneRule, parse_age, to_prune, use_of

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
    return _remove(found, yes, as_json, dry_run=dry_run)


def _remove(
    found: list[tuple[Path, State]], yes: bool, as_json: bool, *, dry_run: bool = False
) -> int:
    """The exit code."""
    from agentcli.errors import AgentError
    from agentcli.files.names import size_text
    from agentcli.sessions.manage.retention import remove, size_of

    sizes = {folder: size_of(folder) for folder, _ in found}
    if not as_json:
        _tell(found, sizes)
    gone = found if dry_run else []
    failures = 0
    if found and not dry_run and confirmed(f"remove {_sessions(len(found))}?", yes):
        for folder, state in found:
            try:
                remove(home(), folder)
            except AgentError as error:
                failures += 1
                say(f"agent: {error.message}", sys.stderr)
            else:
                gone.append((folder, state))
        tidy()
    freed = sum(sizes[folder] for folder, _ in gone)
    if as_json:
        told = [{**row(folder.name, state), "bytes": sizes[folder]} for folder, state in gone]
        print(json.dumps({"dry_run": dry_run, "sessions": told, "bytes": freed}, indent=2))
    elif gone and not dry_run:
        print(f"removed {_sessions(len(gone))}, {size_text(freed)} freed")
    elif found and not dry_run:
        print("agent: nothing was removed", file=sys.stderr)
    return 1 if failures else 0


def _tell(found: list[tuple[Path, State]], sizes: dict[Path, int]) -> None:
    from agentcli.files.names import size_text
    from agentcli.sessions.manage.retention import updated_at

    for folder, state in found:
        when = age(updated_at(folder, state))
        print(f"{folder.name}  {when:<11}  {size_text(sizes[folder]):>9}  {label(state)}")
    print(f"{_sessions(len(found))}, {size_text(sum(sizes.values()))}")


def _sessions(number: int) -> str:
    from agentcli.ui.summary import count

    return count(number, "session")
