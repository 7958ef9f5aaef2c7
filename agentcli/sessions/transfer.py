"""Importing a session from elsewhere as a new one, and copying sessions between stores.

Only the events and the plain files of `outputs/` are imported. Grants, workspace, snapshots, shell
variables and open questions of the imported session have no force here. A copy between stores is
complete or not made at all; the session's folder, with everything kept in files anyway, stays.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from agentcli.errors import SessionError, UsageError
from agentcli.events import Event, OpaqueEvent, event_from_dict, event_to_dict
from agentcli.events.base import COMMON_FIELDS
from agentcli.events.observations import FOREIGN_PREFIX
from agentcli.events.texts import compact_json
from agentcli.sessions.event_log import PAGE
from agentcli.sessions.file_store import SESSIONS, FileStore
from agentcli.sessions.finder import checked_name, named, new_folder
from agentcli.sessions.import_sources import (
    EVENT_BYTES,
    GZIP_MAGIC,
    MOST_EVENTS,
    TOTAL_BYTES,
    ZIP_MAGIC,
    ExportedFile,
    SessionFolder,
    Source,
    opened,
    read_archive,
)
from agentcli.sessions.session import Redact
from agentcli.sessions.staging import staging, write_events
from agentcli.sessions.state import State, fold, save_state
from agentcli.sessions.store import Library, Store, StoredLog

_ALSO_ON_TOP = {"action", "observation", "message", "content"}
_DEEPEST = 100
_LARGEST_INTEGER = 2**63
_LARGEST_METRIC = 1e12


@dataclass(frozen=True)
class Imported:
    """`events` counts the imported events; `notes` tell people what was not imported."""

    folder: Path
    events: int
    notes: tuple[str, ...]


def _open_source(path: Path) -> Source:
    """Open the session at `path`. Raises SessionError when it can't be one, OSError when it can't
    be read."""
    if path.is_dir():
        return SessionFolder(path)
    with opened(path) as file:
        start = file.read(512)
    if start.startswith((ZIP_MAGIC, GZIP_MAGIC)) or start[257:262] == b"ustar":
        return read_archive(path, start)
    return ExportedFile(path)


def import_session(home: Path, path: Path, redact: Redact) -> Imported:
    """Import the session at `path` (a folder, a tar or zip archive of one, an exported file) as a
    new one under `home`, with its secrets masked by `redact`.

    Raises SessionError, naming the event, if any part is not that of a session; then nothing is
    imported.
    """
    try:
        source = _open_source(path)
        neutral = _Neutraliser(home)
        folder = new_folder(home)
        with staging(home, folder.name) as staged:
            budget = _Budget()
            count = _write_events(staged, _checked(source.events(), neutral, redact, budget))
            outputs = staged / "outputs"
            outputs.mkdir(mode=0o700)
            for name, data in source.outputs():
                budget.spend(len(data))
                text = redact(data.decode(errors="surrogateescape"))
                fd = os.open(outputs / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with open(fd, "wb") as file:
                    file.write(text.encode(errors="surrogateescape"))
            # It must be continued only when someone names it, never because it looks like the
            # newest.
            os.utime(staged / "events", (0, 0))
    except SessionError as error:
        raise SessionError(f"{path} can't be imported: {error.message}", hint=error.hint) from error
    except OSError as error:
        where = f" ({error.filename})" if error.filename not in (None, str(path)) else ""
        raise SessionError(f"{path} can't be imported: {error.strerror}{where}") from error
    return Imported(folder, count, tuple(neutral.notes))


class _Budget:
    def __init__(self) -> None:
        self._left = TOTAL_BYTES

    def spend(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise SessionError(f"it holds more than {TOTAL_BYTES // 2**20} MB")


class _Neutraliser:
    """Removes from events of any version what would have force in a session of this user."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._names: dict[str, bool] = {}
        self.notes: list[str] = []

    def __call__(self, record: dict[str, Any]) -> dict[str, Any]:
        parts = [name for name in ("args", "extras") if isinstance(record.get(name), dict)]
        own: dict[str, dict[str, Any]] = {name: dict(record[name]) for name in parts}
        args, extras = own.get("args", {}), own.get("extras", {})
        match record:
            case {"action": "message"}:
                # Paths chosen on another machine.
                args.pop("file_urls", None)
                args.pop("inbox_id", None)
            case {"action": "rename"} if not self._may_have(args.get("name")):
                return _null(record, "a name, which was not imported")
            case {"observation": "checkpoint"}:
                # Which files had changed is evidence even without the snapshot.
                changed = {"changed": extras.get("changed")}
                return {**_null(record, "a checkpoint, which was not imported"), "extras": changed}
            case {"observation": "requirements"}:
                # If the session were continued, someone else's command would be run.
                return _null(record, "requirements, which were not imported")
            case {"observation": "decision"} if extras.get("decision") == "ask":
                # If the session were resumed, this would be asked again, or run if nobody is asked.
                return _null(record, "a question, which was not imported")
            case {"observation": "session_started"}:
                if isinstance(place := extras.get("workspace"), str):
                    # A continued session would work there: its author must not choose a folder.
                    extras["workspace"] = FOREIGN_PREFIX + place.removeprefix(FOREIGN_PREFIX)
                # Folders chosen on another machine.
                extras.pop("writable", None)
                if "name" in extras and not self._may_have(extras["name"]):
                    del extras["name"]
        for values in own.values():
            if values.pop("grant", None) is not None:
                self._note("its standing permissions were not imported")
            values.pop("tree", None)
            if isinstance(metadata := values.get("metadata"), dict):
                left_out = ("exports", "exports_layer")
                values["metadata"] = {k: v for k, v in metadata.items() if k not in left_out}
        return {**record, **own}

    def _may_have(self, name: Any) -> bool:
        if not isinstance(name, str):
            return False
        if name not in self._names:
            self._names[name] = self._is_free(name)
        return self._names[name]

    def _is_free(self, name: str) -> bool:
        try:
            valid = checked_name(name) == name
        except UsageError:
            valid = False
        if not valid:
            self._note("its name can't be used here")
            return False
        if other := named(self._home, name):
            self._note(f"its name, {name!r}, is already that of session {other.name}")
            return False
        return True

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)


def _null(record: dict[str, Any], content: str) -> dict[str, Any]:
    common = ("id", "timestamp", "source", "cause")
    kept = {key: record[key] for key in common if key in record}
    return {**kept, "observation": "null", "content": content}


def _checked(
    given: Iterator[bytes | dict[str, Any]],
    neutral: _Neutraliser,
    redact: Redact,
    budget: _Budget,
) -> Iterator[tuple[Event, bytes]]:
    """Yield each event with its stored form. Raises SessionError at the first invalid one."""
    for event_id, text in enumerate(given):
        if event_id >= MOST_EVENTS:
            raise SessionError(f"it has more than {MOST_EVENTS:,} events")
        try:
            if isinstance(text, bytes):
                budget.spend(len(text))
                text = json.loads(text)
            event = _sound_event(event_id, text, neutral, redact)
        except (ValueError, TypeError, AttributeError, OverflowError) as error:
            raise SessionError(f"event {event_id}: {error}") from error
        except RecursionError as error:
            raise SessionError(f"event {event_id} is nested too deeply") from error
        body = compact_json(event_to_dict(event))
        if len(body) > EVENT_BYTES:
            raise SessionError(f"event {event_id} is too large")
        yield event, body


def _sound_event(event_id: int, record: Any, neutral: _Neutraliser, redact: Redact) -> Event:
    if not isinstance(record, dict):
        raise ValueError("not an event")
    require_plain(record)
    neutralised = neutral(record)
    event = event_from_dict(json.loads(compact_json(redact(neutralised))))
    if not isinstance(event, OpaqueEvent):
        # Elsewhere no version writes them: they would be read, and what has force would stay.
        own = "args" if "action" in record else "extras"
        if wrong := neutralised.keys() - COMMON_FIELDS - _ALSO_ON_TOP - {own}:
            raise ValueError(f"{min(wrong)} is in the wrong place")
    if type(record.get("id")) is not int or event.id != event_id:
        raise ValueError(f"its id is {record.get('id')!r}")
    require_sane(event)
    return event


def require_plain(value: Any, depth: int = 0) -> None:
    """Raise ValueError for valid JSON that other code could not handle."""
    if depth > _DEEPEST:
        raise ValueError("nested too deeply")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            require_plain(item, depth + 1)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number is not finite")
    elif isinstance(value, int) and abs(value) >= _LARGEST_INTEGER:
        raise ValueError("a number is too large")


def require_sane(event: Event) -> None:
    if event.timestamp.tzinfo is None:
        raise ValueError("its time has no time zone")
    if isinstance(event, OpaqueEvent) or event.llm_metrics is None:
        return
    for name, value in event.llm_metrics.model_dump(exclude={"model", "part"}).items():
        if value is not None and not 0 <= value <= _LARGEST_METRIC:
            raise ValueError(f"{name} can't be {value}")


def _write_events(folder: Path, events: Iterator[tuple[Event, bytes]]) -> int:
    state = State()
    with closing(FileStore(folder, durable=False).open()) as store:
        while batch := list(islice(events, PAGE)):
            store.append([(event.id, body) for event, body in batch])
            state = fold((event for event, _ in batch), state)
    os.sync()
    if state.end_id < 0:
        raise SessionError("there are no events")
    save_state(folder / "state.pkl", state)
    return state.end_id + 1


@dataclass(frozen=True)
class Copied:
    """`events` is the number of events of the session, `new` how many of them were copied now."""

    session_id: str
    events: int
    new: int


def copy_session(home: Path, session_id: str, source: Library, target: Library) -> Copied:
    """Copy a session from `source`, which is only read, to `target`, continuing after the events
    that are there already. Then read it again and compare.

    Raises SessionError if the session is damaged or differs in `target`, UsageError if it is in use
    there. If killed at any moment, it leaves the session unchanged or with its beginning.
    """
    folder = home / SESSIONS / session_id
    log, ours = _sound(source.store(folder)), target.store(folder)
    if not log.records:
        return Copied(session_id, 0, 0)
    known = _sound(ours) if ours.exists() else StoredLog([])
    count = len(known.records)
    if known.records != log.records[:count]:
        raise SessionError(
            f"session {session_id} in {target.shown} is a different one, or went on there",
            hint="to keep this one, remove the other first",
        )
    if not count:
        with staging(home, session_id, target) as made:
            write_events(made, source.store(folder), len(log.records))
            _keep_time(made / "events", log.records)
    elif len(log.records) > count:
        with ours.lock():
            _append(ours, known, log.records[count:])
    if _sound(ours).records != log.records:
        raise SessionError(
            f"session {session_id} in {target.shown} differs from the original after copying"
        )
    return Copied(session_id, len(log.records), len(log.records) - count)


def _sound(store: Store) -> StoredLog:
    """Read a log. Raises SessionError if it is damaged."""
    log = store.read_log()
    if log.fault:
        raise SessionError(
            f"it is damaged: {log.fault}", hint="repair it first: agent sessions repair SESSION"
        )
    return log


def _append(store: Store, known: StoredLog, records: Sequence[dict[str, Any]]) -> None:
    state = fold(map(event_from_dict, known.records))
    with closing(store.open(known)):
        for start in range(0, len(records), PAGE):
            batch = records[start : start + PAGE]
            state = fold(map(event_from_dict, batch), state)
            store.append([(record["id"], compact_json(record)) for record in batch], state)
        store.save_state(state)


def _keep_time(events: Path, records: Sequence[dict[str, Any]]) -> None:
    """Date the copy to when the session was last used, not to now."""
    state = fold(map(event_from_dict, records), State())
    with suppress(ValueError, OverflowError):
        moment = datetime.fromisoformat(state.updated_at).timestamp()
        os.utime(events, (moment, moment))
