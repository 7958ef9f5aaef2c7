"""Names that people give to sessions; each name belongs to one session."""

from __future__ import annotations

import re
from pathlib import Path

from agentcli.errors import UsageError
from agentcli.sessions.search.finder import session_states

LONGEST_NAME = 60
_LIKE_AN_ID = re.compile(r"[0-9]{4,8}(-[0-9]{0,6}(-[0-9a-f]{0,4})?)?", re.ASCII)


def checked_name(name: str) -> str:
    """Return `name` stripped of surrounding blanks. Raises UsageError when it is not a valid
    name."""
    name = name.strip()
    if not name:
        raise UsageError("a name can't be empty")
    if len(name) > LONGEST_NAME:
        raise UsageError(f"a name can have at most {LONGEST_NAME} characters, not {len(name)}")
    if not name.isprintable() or "/" in name or name.startswith("-"):
        raise UsageError(
            f"{name!r} can't be a name",
            hint="it needs printable characters, without a slash or a leading dash",
        )
    if _LIKE_AN_ID.fullmatch(name):
        raise UsageError(f"{name!r} looks like the id of a session", hint="choose another name")
    return name


def named(home: Path, name: str, besides: Path | None = None) -> Path | None:
    """Return the session with this name, other than the one in `besides`."""
    states = session_states(home)
    return next((f for f, state in states if state.name == name and f != besides), None)


def free_name(home: Path, name: str, folder: Path | None = None) -> str:
    """Return `name` as `checked_name` does. Raises UsageError also when another session than the
    one in `folder` has it."""
    name = checked_name(name)
    if other := named(home, name, folder):
        raise UsageError(
            f"session {other.name} has the name {name!r}",
            hint=f"rename it first: agent sessions rename {other.name} NAME",
        )
    return name
