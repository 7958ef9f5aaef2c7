"""Remove old sessions of this folder.

Only sessions that match all given options are removed. Sessions that have a name or are in use
stay. Exits 1 when one can't be removed.

Examples:
  agent sessions prune --older-than 30d --dry-run
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from agentcli.cli.commands.sessions.rm import remove_sessions
from agentcli.cli.options import Everywhere, Json, Yes, option
from agentcli.cli.user_paths import here, home
from agentcli.errors import UsageError
from agentcli.sessions.upkeep import PruneRule, parse_age, to_prune, use_of


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
