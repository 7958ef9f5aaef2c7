"""The sessions of a user in a database. Their folders stay in the home of each machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, insert, select

from agentcli.errors import SessionError
from agentcli.events import event_from_dict
from agentcli.events.json_text import compact_json
from agentcli.sessions.database.address import parse_address
from agentcli.sessions.database.connection import Database
from agentcli.sessions.database.rows import event_row, state_columns, state_from_row
from agentcli.sessions.database.schema import EVENTS, SESSIONS
from agentcli.sessions.database.store import STATE_TEXT, DatabaseStore
from agentcli.sessions.database.writer import lock_holders
from agentcli.sessions.file_library import put_in_place
from agentcli.sessions.file_store import FILE_NAMES, FileStore, keep_elsewhere
from agentcli.sessions.pages import PAGE
from agentcli.sessions.reading import state_or_empty
from agentcli.sessions.state import State, fold
from agentcli.sessions.store import Holder, Library
from agentcli.workspace.private import remove_tree


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
            self._require_same(source, known)
        else:
            with self.database.writing() as connection:
                _insert(connection, self.database.user, session_id, source)
        for name in FILE_NAMES:
            path = made / name
            remove_tree(path) if path.is_dir() else path.unlink(missing_ok=True)
        keep_elsewhere(folder if folder.exists() else made, self.shown)
        put_in_place(made, folder)

    def _require_same(self, source: FileStore, known: DatabaseStore) -> None:
        """Raise SessionError if the stored session of the same id is another one."""
        count = source.count()
        if count and (
            known.count() != count or known.read(range(count)) != source.read(range(count))
        ):
            raise SessionError(f"session {known.id} already exists in {self.shown}")

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
