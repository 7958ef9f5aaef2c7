"""Which sessions to keep, and how the others are removed."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentcli.errors import SessionError, UsageError
from agentcli.sessions.library import store_of
from agentcli.sessions.manage.staging import BEING_CREATED_S, force_rmtree, set_aside
from agentcli.sessions.search.finder import SessionTree, session_states
from agentcli.sessions.state import State
from agentcli.workspace.folders import walk

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_BLOCK_BYTES = 512
_REMOVAL_S = 60.0


@dataclass(frozen=True)
class PruneRule:
    """A session is pruned when everything set here holds: not used for `older_than`, not among the
    newest `keep`, nothing said in it (`empty`). A session with a name is kept unless `named`."""

    older_than: timedelta | None = None
    keep: int | None = None
    empty: bool = False
    named: bool = False


def parse_age(text: str) -> timedelta:
    """Parse `90m`, `12h`, `30d` or `8w`. Raises UsageError."""
    number, unit = text[:-1], text[-1:]
    try:
        if not (number.isascii() and number.isdigit()):
            raise ValueError(text)
        return timedelta(**{_UNITS[unit]: int(number)})
    except (KeyError, ValueError, OverflowError) as error:
        raise UsageError(f"{text!r} is not a valid age", hint="e.g. 12h, 30d or 8w") from error


def to_prune(
    home: Path, rule: PruneRule, workspace: str | None, now: datetime
) -> list[tuple[Path, State]]:
    """Return the sessions that `rule` prunes, newest first, each followed by its children; only
    those of `workspace` if it is given."""
    every = SessionTree(session_states(home, workspace))
    mine = sorted(every.roots(), key=lambda entry: updated_at(*entry), reverse=True)
    latest = now - rule.older_than if rule.older_than is not None else None
    going = [
        (folder, state)
        for folder, state in mine[rule.keep or 0 :]
        if (latest is None or updated_at(folder, state) <= latest)
        and not (rule.empty and (state.title or state.iteration))
        and (rule.named or not state.name)
    ]
    return [each for head in going for each in (head, *every.descendants(head[0].name))]


def updated_at(folder: Path, state: State) -> datetime:
    """Return when something last happened in a session, as far as that can be known."""
    with suppress(ValueError):
        moment = datetime.fromisoformat(state.updated_at)
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    try:
        return datetime.fromtimestamp(folder.lstat().st_mtime, UTC)
    except OSError:
        return datetime.now(UTC)


def size_of(folder: Path) -> int:
    """Return how many bytes removing `folder` would free; files with another hard link free
    none."""
    total = 0
    for parent, folders, files in walk(folder):
        for name in (*folders, *files):
            with suppress(OSError):
                status = (parent / name).lstat()
                if status.st_nlink == 1 or stat.S_ISDIR(status.st_mode):
                    total += status.st_blocks * _BLOCK_BYTES
    return total


def use_of(folder: Path) -> str:
    """Return what is using a session now, such as `in use by process 4711`; empty if nothing is."""
    store = store_of(folder)
    if holder := store.holder():
        return f"in use by process {holder.pid}" + ("" if holder.is_here else f" on {holder.host}")
    if store.exists():
        return ""
    with suppress(OSError):
        is_young = time.time() - folder.lstat().st_mtime < BEING_CREATED_S
        if is_young and not os.path.lexists(folder / "session.lock"):
            return "just being created"
    return ""


def remove(home: Path, folder: Path) -> None:
    """Remove a session: first from the list of sessions, then from the disk. No link is followed.
    If it is in another store too, what both share stays.

    Raises UsageError when a process writes to it, SessionError when it can't be removed; whatever
    is left then is no longer a session, and the next command deletes it.
    """
    lock_path = folder / "session.lock"
    store = store_of(folder)
    try:
        if folder.is_symlink():
            folder.unlink()
            return
        if lock_path.is_symlink():
            lock_path.unlink()
        with store.lock():
            doomed = set_aside(home, folder, store.own_files())
            store.remove()
            force_rmtree(doomed, _REMOVAL_S)
    except OSError as error:
        raise SessionError(f"session {folder.name} can't be removed: {error}") from error
