"""What is kept of sessions, looked at from outside of the program."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, Protocol

from agentcli.sessions.state import State, from_plain, load_state

_EVENTS = "SELECT sequence_number, CAST(event_data AS TEXT) FROM events WHERE session_id = "
_STATE = "SELECT CAST(metadata AS TEXT), events FROM sessions WHERE id = "


class Kept(Protocol):
    def texts(self, folder: Path) -> dict[str, bytes]:
        """The JSON of the events of a session, by names as their files have them."""

    def state(self, folder: Path) -> State | None:
        """What is kept of its state, if that can be used."""


class KeptInFiles(Kept):
    def texts(self, folder: Path) -> dict[str, bytes]:
        events = folder / "events"
        return {p.name: p.read_bytes() for p in events.iterdir()} if events.is_dir() else {}

    def state(self, folder: Path) -> State | None:
        return load_state(folder / "state.pkl")


class KeptInDatabase(Kept):
    """`place` is a file of SQLite or the URL of a PostgreSQL server."""

    def __init__(self, place: Path | str) -> None:
        self._place = place

    def texts(self, folder: Path) -> dict[str, bytes]:
        rows = self._rows(_EVENTS, folder)
        return {f"{number:09d}.json": text.encode() for number, text in rows}

    def state(self, folder: Path) -> State | None:
        for metadata, events in self._rows(_STATE, folder):
            state = from_plain(json.loads(metadata))
            assert state is None or state.end_id == events - 1, "the row is of another moment"
            return state
        return None

    def _rows(self, query: str, folder: Path) -> Iterable[tuple[Any, Any]]:
        if isinstance(self._place, str):
            import psycopg

            with psycopg.connect(self._place) as server:
                return list(server.execute(query + "%s", [folder.name]))
        if not self._place.exists():
            return []
        with closing(sqlite3.connect(self._place)) as database:
            try:
                return list(database.execute(query + "?", [folder.name]))
            except sqlite3.OperationalError:
                # Killed before it had made the tables.
                return []
