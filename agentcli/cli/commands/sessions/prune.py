"""Remove old sessions of this folder.

Only sessions that match all given options are removed. Sessions that have a name or are in use
stay. Exits 1 when one can't be removed.

Examples:
  agent sessions prune --older-than 30d --dry-run
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from agentcli.cli.removal import remove_sessions
from agentcli.cli.session_common import Everywhere, Json, Yes, here, home
from agentcli.errors import UsageError
from agentcli.sessions.manage.retention import PruneRule, parse_age, to_prune, use_of


def prune(
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", help="Not used for this long: 12h, 30d, 8w.", metavar="AGE"),
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


COMMAND = prune
