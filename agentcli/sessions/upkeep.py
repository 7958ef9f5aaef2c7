"""Repairing damaged sessions with what is intact of them; pruning and removing sessions."""

from __future__ import annotations

import os
import stat
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from agentcli.errors import SessionError, UsageError
from agentcli.events.texts import compact_json
from agentcli.sessions.event_log import PAGE, event_path, page_path, read_page, written_at
from agentcli.sessions.file_store import FileStore
from agentcli.sessions.finder import SessionTree, session_states
from agentcli.sessions.library import store_of
from agentcli.sessions.session import read_session
from agentcli.sessions.staging import BEING_CREATED_S, force_rmtree, set_aside
from agentcli.sessions.state import State
from agentcli.workspace.folders import walk


@dataclass(frozen=True)
class Repair:
    """What a repair did or would do: the events restored from a page, and the events from the first
    lost one on, which are moved to `events.bad/`. `fault` is the first fault found."""

    fault: str | None
    restored: tuple[int, ...] = ()
    set_aside: tuple[int, ...] = ()


def repair(folder: Path, *, dry_run: bool = False) -> Repair:
    """Repair the session in `folder` up to the first event that is lost.

    Raises SessionError when nothing of it can be read, UsageError when it is in use or not stored
    in files.
    """
    store = store_of(folder)
    if not isinstance(store, FileStore):
        raise UsageError(
            f"session {folder.name} is in a database, which agent can't repair",
            hint=f"to copy what is intact: agent fork {folder.name} --at EVENT",
        )
    with store.lock():
        try:
            return _look(folder) if dry_run else _repair(folder)
        except OSError as error:
            raise SessionError(f"{folder} can't be repaired: {error.strerror}") from error


def _look(folder: Path) -> Repair:
    """Return the first thing a repair would do; later faults show only once that is done."""
    record = read_session(folder)
    lost = len(record.events)
    if record.log.fault is None:
        return Repair(None)
    if _from_page(folder, lost) is not None:
        return Repair(record.log.fault, restored=(lost,))
    return Repair(record.log.fault, set_aside=_events_from(folder, lost))


def _repair(folder: Path) -> Repair:
    first_fault = None
    restored: list[int] = []
    while (record := read_session(folder)).log.fault is not None:
        first_fault = first_fault or record.log.fault
        lost = len(record.events)
        body = _from_page(folder, lost)
        if body is None or lost in restored:
            return Repair(first_fault, tuple(restored), _set_aside(folder, lost))
        _move_to_bad(folder, [lost])
        with closing(FileStore(folder).open()) as store:
            store.append([(lost, body)])
        restored.append(lost)
    return Repair(first_fault, tuple(restored))


def _from_page(folder: Path, event_id: int) -> bytes | None:
    start = event_id // PAGE * PAGE
    page = read_page(folder, start)
    return None if page is None else compact_json(page[event_id - start])


def _set_aside(folder: Path, first: int) -> tuple[int, ...]:
    """Move every event from `first` on out of the log, and delete what is derived from them."""
    gone = _events_from(folder, first)
    # The newest are moved first, so that an interrupted repair leaves no new gap.
    _move_to_bad(folder, sorted(gone, reverse=True))
    for start in range(first // PAGE * PAGE, max(gone, default=first) + PAGE, PAGE):
        page_path(folder, start).unlink(missing_ok=True)
    (folder / "state.pkl").unlink(missing_ok=True)
    return gone


def _events_from(folder: Path, first: int) -> tuple[int, ...]:
    stored = written_at(folder / "events")
    return tuple(sorted(event_id for event_id in stored if event_id >= first))


def _move_to_bad(folder: Path, ids: list[int]) -> None:
    bad = folder / "events.bad"
    bad.mkdir(mode=0o700, exist_ok=True)
    for event_id in ids:
        path = event_path(folder, event_id)
        target = bad / path.name
        number = 1
        while target.exists():
            target = bad / f"{path.name}.{number}"
            number += 1
        if path.exists() or path.is_symlink():
            path.rename(target)


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
