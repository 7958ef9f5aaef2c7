"""Sessions in a database: one of them, and all of a user. Their folders stay in the home of each
machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Text, cast, delete, insert, select

from agentcli.errors import SessionError
from agentcli.events import event_from_dict
from agentcli.events.texts import compact_json
from agentcli.sessions.database_connection import Database, parse_address
from agentcli.sessions.database_schema import (
    EVENTS,
    SESSIONS,
    event_row,
    parse_event,
    state_columns,
    state_from_row,
)
from agentcli.sessions.database_writer import Writer, lock_holders, open_writer, remove_lock
from agentcli.sessions.event_log import PAGE, state_or_empty
from agentcli.sessions.file_store import FILE_NAMES, FileStore, put_in_place
from agentcli.sessions.folder import (
    forget_place,
    keep_elsewhere,
    make_folder,
    noted_places,
    writing_to,
)
from agentcli.sessions.state import State, fold
from agentcli.sessions.store import Holder, Library, Store, StoredLog
from agentcli.workspace.private import remove_tree

STATE_TEXT = cast(SESSIONS.c.metadata, Text)
_EVENT_TEXT = cast(EVENTS.c.event_data, Text)


class DatabaseStore(Store):
    """The events of the session in `folder`, in a database."""

    def __init__(self, database: Database, folder: Path) -> None:
        self.exhausted: SessionError | None = None
        self._database = database
        self._folder = folder
        self.id = folder.name
        self._writer: Writer | None = None

    def exists(self) -> bool:
        return self.owner() == self._database.user

    def check(self) -> None:
        owner = self.owner()
        shown = self._database.address.shown
        if owner is None:
            raise SessionError(f"there is no session {self.id} in {shown}")
        if owner != self._database.user:
            raise SessionError(
                f"session {self.id} in {shown} belongs to {owner}, not to you "
                f"({self._database.user})"
            )

    def create(self) -> Writer:
        row = {"id": self.id, "user": self._database.user, "events": 0, "writer": 0}
        make_folder(self._folder)
        with ExitStack() as undo, writing_to(self._folder):
            undo.callback(remove_tree, self._folder)
            keep_elsewhere(self._folder, self._database.address.shown)
            with self._database.writing() as connection:
                connection.execute(insert(SESSIONS).values(**row, **state_columns(State())))
            undo.callback(self.remove)
            self._writer = open_writer(self._database, self.id)
            undo.pop_all()
        return self._writer

    def lock(self) -> Writer:
        self.check()
        make_folder(self._folder, anew=False)
        with writing_to(self._folder):
            keep_elsewhere(self._folder, self._database.address.shown)
        self._writer = open_writer(self._database, self.id)
        return self._writer

    def holder(self) -> Holder | None:
        return lock_holders(self._database, [self.id]).get(self.id)

    def read_log(self) -> StoredLog:
        self.check()
        records: list[dict[str, Any]] = []
        with self._database.reading() as connection:
            count = connection.scalar(select(SESSIONS.c.events).where(SESSIONS.c.id == self.id))
            for number, text in connection.execute(self._events()):
                if number != len(records):
                    return StoredLog(records, fault=f"event {len(records)} is missing")
                record = parse_event(text, number)
                if record is None:
                    return StoredLog(records, fault=f"event {number} is damaged")
                records.append(record)
        if count is not None and count > len(records):
            return StoredLog(records, fault=f"event {len(records)} is missing")
        return StoredLog(records)

    def read(self, ids: range) -> Sequence[dict[str, Any]]:
        number = EVENTS.c.sequence_number
        wanted = self._events().where(number >= ids.start, number <= min(ids.stop, 2**31) - 1)
        with self._database.reading() as connection:
            rows = connection.execute(wanted).all()
        in_order = takewhile(lambda row: row[1][0] == row[0], enumerate(rows, ids.start))
        records = (parse_event(text, event_id) for event_id, (_, text) in in_order)
        return list(takewhile(lambda record: record is not None, records))  # type: ignore[arg-type]

    def count(self) -> int:
        with self._database.reading() as connection:
            wanted = select(SESSIONS.c.events).where(SESSIONS.c.id == self.id)
            return connection.scalar(wanted) or 0

    def stamp(self, event_id: int) -> str:
        wanted = select(EVENTS.c.event_id).where(
            EVENTS.c.session_id == self.id, EVENTS.c.sequence_number == event_id
        )
        with self._database.reading() as connection:
            found = connection.scalar(wanted)
        return "gone" if found is None else str(found)

    def load_state(self) -> State | None:
        wanted = select(STATE_TEXT, SESSIONS.c.events).where(SESSIONS.c.id == self.id)
        with self._database.reading() as connection:
            row = connection.execute(wanted).one_or_none()
        return state_from_row(*row) if row else None

    def open(self, log: StoredLog | None = None) -> Self:
        return self

    def append(
        self, records: Sequence[tuple[int, bytes]], state: State, *, barrier: bool = True
    ) -> None:
        """Store events as `Store.append` says; they are always durable at once."""
        assert self._writer is not None, "lock() comes first"
        self._writer.append(list(records), state)

    def save_state(self, state: State) -> None:
        """Do nothing, because each append saves the state."""

    def close(self) -> None:
        """Do nothing, because the connection is closed with the lock."""

    def own_files(self) -> Sequence[str] | None:
        shown = self._database.address.shown
        others = [place for place in noted_places(self._folder) if place != shown]
        return () if others or FileStore(self._folder).exists() else None

    def remove(self) -> None:
        with self._database.writing() as connection:
            mine = (SESSIONS.c.id == self.id) & (SESSIONS.c.user == self._database.user)
            connection.execute(delete(SESSIONS).where(mine))
        remove_lock(self._database, self.id)
        with writing_to(self._folder):
            forget_place(self._folder, self._database.address.shown)

    def owner(self) -> str | None:
        """Return whose session it is, None if it does not exist."""
        with self._database.reading() as connection:
            return connection.scalar(select(SESSIONS.c.user).where(SESSIONS.c.id == self.id))

    def _events(self) -> Any:
        of_it = EVENTS.c.session_id == self.id
        number = EVENTS.c.sequence_number
        return select(number, _EVENT_TEXT).where(of_it).order_by(number)


class DatabaseLibrary(Library):
    """The sessions in the database at the URL `place`. Raises ConfigError when it can't be used."""

    def __init__(self, home: Path, place: str) -> None:
        self._sessions = home / "sessions"
        self.database = Database(parse_address(place, home))
        self.shown = self.database.address.shown
        self.places = self.database.files

    def store(self, folder: Path) -> DatabaseStore:
        return DatabaseStore(self.database, folder)

    def close(self) -> None:
        self.database.close()

    def states(self, workspace: str | None = None) -> Iterator[tuple[Path, State]]:
        newest = (SESSIONS.c.updated.desc().nulls_last(), SESSIONS.c.id.desc())
        wanted = select(SESSIONS.c.id, STATE_TEXT, SESSIONS.c.events)
        with self.database.reading() as connection:
            rows = connection.execute(self._mine(wanted).order_by(*newest)).all()
        for session_id, metadata, events in rows:
            folder = self._sessions / session_id
            state = state_from_row(metadata, events) or state_or_empty(folder, self.store(folder))
            if workspace is None or state.workspace == workspace:
                yield folder, state

    def holders(self, session_ids: Iterable[str]) -> dict[str, Holder]:
        return lock_holders(self.database, session_ids)

    def stamps(self) -> Iterable[tuple[str, str]]:
        wanted = select(SESSIONS.c.id, SESSIONS.c.events, SESSIONS.c.updated)
        with self.database.reading() as connection:
            rows = connection.execute(self._mine(wanted)).all()
        return [(session_id, f"{events}:{updated}") for session_id, events, updated in rows]

    def adopt(self, made: Path, session_id: str) -> None:
        source, folder = FileStore(made), self._sessions / session_id
        known = self.store(folder)
        if known.owner() is not None:
            known.check()
            count = source.count()
            if count and (
                known.count() != count or known.read(range(count)) != source.read(range(count))
            ):
                raise SessionError(f"session {known.id} already exists in {self.shown}")
        else:
            with self.database.writing() as connection:
                _insert(connection, self.database.user, session_id, source)
        for name in FILE_NAMES:
            path = made / name
            remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)
        keep_elsewhere(folder if folder.exists() else made, self.shown)
        put_in_place(made, folder)

    def _mine(self, wanted: Any) -> Any:
        return wanted.where(SESSIONS.c.user == self.database.user)


def _insert(connection: Connection, user: str, session_id: str, source: FileStore) -> None:
    """Insert the whole session of `source` in the open transaction."""
    row = {"id": session_id, "user": user, "events": 0, "writer": 0}
    connection.execute(insert(SESSIONS).values(**row, **state_columns(State())))
    state = State()
    while records := source.read(range(state.end_id + 1, state.end_id + 1 + PAGE)):
        state = fold(map(event_from_dict, records), state)
        rows = [event_row(session_id, record["id"], compact_json(record)) for record in records]
        connection.execute(insert(EVENTS), rows)
    whole = {"events": state.end_id + 1, **state_columns(state)}
    connection.execute(SESSIONS.update().where(SESSIONS.c.id == session_id).values(**whole))
