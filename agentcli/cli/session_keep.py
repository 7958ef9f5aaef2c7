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
    Yes,
    age,
    confirmed,
    here,
    home,
    label,
    row,
    size,
)

if TYPE_CHECKING:
    from agentcli.sessions.state import State


def rename(
    session: Annotated[str, typer.Argument(help="Id, unique start of one, or name.")],
    name: Annotated[str, typer.Argument(help="The new name.")],
    as_json: Json = False,
) -> None:
    """Give a session a name, under which resume, show and the others find it."""
    from agentcli.events import Source
    from agentcli.events.actions import RenameAction
    from agentcli.sessions.finder import find
    from agentcli.sessions.naming import checked_name, require_free
    from agentcli.sessions.session import Session

    folder = find(home(), session)
    name = checked_name(name)
    require_free(home(), name, folder)
    with Session.open(folder) as opened:
        opened.emit(RenameAction(name=name, source=Source.USER))
        state = opened.state
    if as_json:
        print(json.dumps(row(folder.name, state), indent=2))
    else:
        print(f"{folder.name} is now {name}")


def remove_sessions(
    sessions: Annotated[
        list[str], typer.Argument(help="Ids, unique starts of ids, or names.", metavar="SESSION…")
    ],
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Remove sessions for good: all that are given, or none if one of them is in use."""
    from agentcli.sessions.finder import find, session_states
    from agentcli.sessions.retention import require_unused

    wanted = dict.fromkeys(find(home(), session) for session in sessions)
    for folder in wanted:
        require_unused(folder)
    states = dict(session_states(home()))
    _remove([(folder, states[folder]) for folder in wanted if folder in states], yes, as_json)


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
) -> None:
    """Remove old sessions of this folder; what is asked for must hold together.

    Sessions that have a name or are in use stay.
    """
    from datetime import UTC, datetime

    from agentcli.errors import UsageError
    from agentcli.sessions.retention import PruneRule, in_use, parse_age, to_prune

    if older_than is None and keep is None and not empty:
        raise UsageError("which sessions?", hint="--older-than 30d, --keep 20 or --empty")
    limit = parse_age(older_than) if older_than is not None else None
    rule = PruneRule(limit, keep, empty, include_named)
    workspace = None if everywhere else str(here())
    found = [
        (folder, state)
        for folder, state in to_prune(home(), rule, workspace, datetime.now(UTC))
        if not in_use(folder)
    ]
    _remove(found, yes, as_json, dry_run=dry_run)


def _remove(
    found: list[tuple[Path, State]], yes: bool, as_json: bool, *, dry_run: bool = False
) -> None:
    from agentcli.errors import UsageError
    from agentcli.sessions.retention import remove, size_of

    sizes = {folder: size_of(folder) for folder, _ in found}
    if not as_json:
        _tell(found, sizes)
    removed: list[Path] = []
    if found and not dry_run and confirmed(f"remove {_sessions(len(found))}?", yes):
        for folder, _ in found:
            try:
                remove(home(), folder)
            except UsageError as error:
                print(f"agent: {error.message}", file=sys.stderr)
            else:
                removed.append(folder)
    freed = sum(sizes[folder] for folder in removed)
    if as_json:
        listed = found if dry_run else [(f, state) for f, state in found if f in removed]
        print(
            json.dumps(
                {
                    "dry_run": dry_run,
                    "sessions": [
                        {**row(folder.name, state), "bytes": sizes[folder]}
                        for folder, state in listed
                    ],
                    "bytes": sum(sizes[folder] for folder, _ in listed),
                },
                indent=2,
            )
        )
    elif removed:
        print(f"removed {_sessions(len(removed))}, {size(freed)} freed")
    elif found and not dry_run:
        print("agent: nothing was removed", file=sys.stderr)


def _tell(found: list[tuple[Path, State]], sizes: dict[Path, int]) -> None:
    from agentcli.sessions.retention import updated_at

    for folder, state in found:
        when = age(updated_at(folder, state))
        print(f"{folder.name}  {when:<10}  {size(sizes[folder]):>9}  {label(state)}")
    print(f"{_sessions(len(found))}, {size(sum(sizes.values()))}")


def _sessions(number: int) -> str:
    from agentcli.ui.summary import count

    return count(number, "session")
