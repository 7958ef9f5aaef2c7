"""One session in a database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Text, cast, delete, insert, select

from agentcli.errors import SessionError
from agentcli.sessions.database.connection import Database
from agentcli.sessions.database.rows import parse_event, state_columns, state_from_row
from agentcli.sessions.database.schema import EVENTS, SESSIONS
from agentcli.sessions.database.writer import Writer, lock_holders, open_writer, remove_lock
from agentcli.sessions.file_store import (
    FileStore,
    forget_place,
    keep_elsewhere,
    make_folder,
    noted_places,
)
from agentcli.sessions.state import State
from agentcli.sessions.store import Holder, Store, StoredLog
from agentcli.sessions.write_faults import writing_to
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
