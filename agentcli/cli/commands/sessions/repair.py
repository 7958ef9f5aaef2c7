"""Make a damaged session usable again.

Events that a page of its cache still holds are restored. From the first lost event on, the rest is
moved to events.bad/ in the session's folder.

Examples:
  agent sessions repair parser
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

from agentcli.cli.options import Json, OneSession, option
from agentcli.cli.user_paths import home
from agentcli.sessions.finder import find
from agentcli.sessions.upkeep import repair as repair_session
from agentcli.ui.text import say


def repair(
    session: OneSession,
    dry_run: Annotated[bool, option("--dry-run", "Only say what would be done.")] = False,
    as_json: Json = False,
) -> None:
    folder = find(home(), session)
    done = repair_session(folder, dry_run=dry_run)
    if as_json:
        print(json.dumps({"session_id": folder.name, "dry_run": dry_run, **asdict(done)}))
        return
    if done.fault is None:
        print(f"{folder.name} is not damaged")
        return
    would = "would be " if dry_run else ""
    say(done.fault)
    for event_id in done.restored:
        print(f"event {event_id} {would or 'was '}restored from the cache")
    if done.set_aside:
        first, last = done.set_aside[0], done.set_aside[-1]
        print(f"events {first} to {last} {would or 'were '}moved to {folder / 'events.bad'}")


COMMAND = repair
