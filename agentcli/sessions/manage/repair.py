"""Making a damaged session usable again with what is intact of it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agentcli.errors import SessionError, UsageError
from agentcli.events.json_text import compact_json
from agentcli.sessions.event_files import event_path, written_at
from agentcli.sessions.file_store import FileStore
from agentcli.sessions.library import store_of
from agentcli.sessions.pages import PAGE, page_path, read_page
from agentcli.sessions.session import read_session


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
