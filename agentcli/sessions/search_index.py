"""Full-text search over sessions: an SQLite database derived from their logs.

Each search first adds the events written since the last one. The file may be deleted at any time;
one that is damaged or foreign is made anew, and where no file can be used, the index is in memory.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from agentcli.errors import SessionError, UsageError
from agentcli.sessions.file_store import SESSIONS
from agentcli.sessions.library import library_of
from agentcli.sessions.store import Store

_MOST_CHARACTERS = 2_000
_MOST_TERMS = 64
_TERM = re.compile(r'"([^"]*)(?:"|\Z)(\*?)|([^\s"]+)')
_UNSPACED = re.compile("([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")
"""Letters of scripts without spaces between words; each is indexed as a word."""
BREAK = "\u200b"
MARK_START, MARK_END = "\x02", "\x03"
"""Marks around the words found in a snippet."""
_BLANKED = str.maketrans({MARK_START: " ", MARK_END: " ", "\0": " "})


def separate_words(text: str) -> str:
    """Put an invisible break around every letter of a script without spaces."""
    return text if text.isascii() else _UNSPACED.sub(BREAK + r"\1" + BREAK, text)


def full_text_expression(query: str) -> str:
    """Return an FTS5 expression for words (all of them must occur), "phrases" and beginnings*.

    Nothing else has a meaning: operators, signs and unbalanced quotes are plain text. Raises
    UsageError when the query has no word, or far too many.
    """
    if len(query) > _MOST_CHARACTERS:
        raise UsageError(f"the query is longer than {_MOST_CHARACTERS:,} characters")
    terms = []
    for phrase, star, word in _TERM.findall(storable(query)):
        text = word.rstrip("*") or phrase
        if any(char.isalnum() for char in text):
            begins = star or ("*" if word.endswith("*") else "")
            terms.append(f'"{separate_words(text)}"{begins}')
    if not terms:
        raise UsageError(
            f"there is no word to search for in {query!r}",
            hint='all words must occur; "…" finds a phrase, begin* the beginnings of words',
        )
    if len(terms) > _MOST_TERMS:
        raise UsageError(f"a query can have at most {_MOST_TERMS} words")
    return " ".join(terms)


def storable(text: str) -> str:
    """Replace what the index can't store: lone surrogates, NUL, the marks of snippets."""
    return text.encode("utf-8", "replace").decode().translate(_BLANKED)


Kind = Literal["user", "agent", "call", "result"]

_LONGEST_TEXT = 100_000
_DEEPEST = 20
_SAID = frozenset({"message", "think", "finish", "reject", "ask"})
_SAME_IN_ALL = frozenset({"system", "session_started"})
_NOT_TEXT = frozenset({"image_urls", "screenshot", "digest", "tree", "inbox_id", "old_content"})
_REPEATS_THE_CALL = frozenset({"command", "code", "path", "diff"})


def searchable(record: dict[str, Any]) -> tuple[Kind, str] | None:
    """Return who or what speaks in an event, given as JSON, and its text: what was said, commands,
    paths, file contents, outputs; at most the first 100,000 characters. None for an event without
    text, or with the text that all sessions share, such as system prompts."""
    name = kind_of(record)
    if name in _SAME_IN_ALL:
        return None
    if "action" in record:
        texts = _strings(record.get("args"), _NOT_TEXT)
        said_by: Kind = "user" if record.get("source") == "user" else "agent"
        kind: Kind = said_by if name in _SAID else "call"
    else:
        texts = _strings(
            [record.get("content"), record.get("extras")], _NOT_TEXT | _REPEATS_THE_CALL
        )
        kind = "result"
    text = "\n".join(texts)[:_LONGEST_TEXT]
    return (kind, text) if text.strip() else None


def kind_of(record: dict[str, Any]) -> str:
    return str(record.get("action", record.get("observation")))


def _strings(value: Any, left_out: frozenset[str], depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:_LONGEST_TEXT]
    elif isinstance(value, list) and depth < _DEEPEST:
        for item in value:
            yield from _strings(item, left_out, depth + 1)
    elif isinstance(value, dict) and depth < _DEEPEST:
        for key, item in value.items():
            if key not in left_out:
                yield from _strings(item, left_out, depth + 1)


INDEX_VERSION = 1
_APPLICATION_ID = 0x61676E74
_PATIENCE_S = 10.0
"""How long to wait for another search that is updating the file."""
_EVENTS_AT_ONCE = 50
_EVENTS_A_SESSION = 1 << 32
"""The row number of an event is session * this + event."""
_HALF_WEIGHT_DAYS = 90
_SNIPPET_TOKENS = 16
_IN_USE = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_LATEST = datetime.max.replace(tzinfo=UTC).timestamp() - 1

_SCHEMA = """
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, workspace TEXT NOT NULL DEFAULT '',
    events INTEGER NOT NULL DEFAULT 0, folder_stamp TEXT NOT NULL DEFAULT '',
    last_stamp TEXT NOT NULL DEFAULT ''
);
CREATE VIRTUAL TABLE texts USING fts5 (
    text, kind UNINDEXED, time UNINDEXED, tokenize = 'unicode61 remove_diacritics 2'
);
"""
_SEARCH = f"""
SELECT sessions.id, texts.rowid % {_EVENTS_A_SESSION}, texts.kind, texts.time,
       snippet(texts, 0, char(2), char(3), '…', {_SNIPPET_TOKENS})
FROM texts JOIN sessions ON sessions.number = texts.rowid / {_EVENTS_A_SESSION}
WHERE texts MATCH ? AND (? IS NULL OR sessions.workspace = ?)
ORDER BY bm25(texts) / (1 + max(0, ? - texts.time) / ({_HALF_WEIGHT_DAYS} * 86400.0)),
         texts.time DESC
LIMIT ?
"""


@dataclass(frozen=True)
class Hit:
    """An event that matches the query; `kind` is user, agent, call or result, `time` is UTC.

    `marks` are the start and end offsets of the words in `snippet`, which is one line.
    """

    session_id: str
    event_id: int
    kind: str
    time: datetime
    snippet: str
    marks: tuple[tuple[int, int], ...]


def search(
    home: Path,
    query: str,
    workspace: str | None = None,
    *,
    limit: int = 20,
    rebuild: bool = False,
) -> list[Hit]:
    """Return matching events of sessions under `home`, only those of `workspace` if it is given.
    The best match comes first; weights halve every 90 days, so that the newer of two equal matches
    comes first.

    Raises UsageError for a query without a word in it, SessionError when SQLite can't search.
    """
    expression = full_text_expression(query)
    path = home / "index.sqlite"
    if rebuild:
        _discard(path)
    for place in (path, path):
        try:
            return _search(place, home, expression, workspace, limit)
        except (sqlite3.DatabaseError, OSError) as error:
            if getattr(error, "sqlite_errorcode", None) in _IN_USE:
                break
            _discard(path)
    try:
        return _search(None, home, expression, workspace, limit)
    except sqlite3.DatabaseError as error:
        raise SessionError(f"sessions can't be searched: {error}") from error


def _search(
    place: Path | None, home: Path, expression: str, workspace: str | None, limit: int
) -> list[Hit]:
    with closing(_open(place)) as database:
        _update(database, home)
        return _find(database, expression, workspace, limit)


def _open(path: Path | None) -> sqlite3.Connection:
    """Open the database at `path`, or one in memory. Raises sqlite3.DatabaseError, OSError."""
    if path is not None:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                raise OSError(f"{path} is not a file")
            os.fchmod(fd, 0o600)
        finally:
            os.close(fd)
    database = sqlite3.connect(path or ":memory:", timeout=_PATIENCE_S, isolation_level=None)
    try:
        # The index can always be rebuilt, so it need not survive a power failure.
        database.execute("PRAGMA synchronous = OFF")
        database.execute("PRAGMA trusted_schema = OFF")
        database.execute("BEGIN IMMEDIATE")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        application = database.execute("PRAGMA application_id").fetchone()[0]
        if (application, version) != (_APPLICATION_ID, INDEX_VERSION):
            if database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise sqlite3.DatabaseError("not an index of this version")
            for statement in _SCHEMA.split(";")[:-1]:
                database.execute(statement)
            database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {INDEX_VERSION}")
    except BaseException:
        database.close()
        raise
    return database


def _discard(path: Path) -> None:
    for name in (path.name, f"{path.name}-journal"):
        with suppress(OSError):
            path.with_name(name).unlink()


def _update(database: sqlite3.Connection, home: Path) -> None:
    """Add what was written since the last search. Ends the transaction that `_open` began."""
    known = {row[1]: row for row in database.execute("SELECT * FROM sessions")}
    library = library_of(home)
    for session_id, stamp in library.stamps():
        _, _, _, events, old_stamp, last_stamp = known.pop(session_id, (0, "", "", 0, "", ""))
        if stamp and stamp == old_stamp:
            continue
        store = library.store(home / SESSIONS / session_id)
        if events and store.stamp(events - 1) != last_stamp:
            _forget(database, session_id)
            events = 0
        _add_events(database, session_id, store, events, stamp)
    for session_id in known:
        _forget(database, session_id)
    database.execute("COMMIT")


def _forget(database: sqlite3.Connection, session_id: str) -> None:
    row = database.execute("SELECT number FROM sessions WHERE id = ?", (session_id,)).fetchone()
    if row is not None:
        first = row[0] * _EVENTS_A_SESSION
        last = first + _EVENTS_A_SESSION - 1
        database.execute("DELETE FROM texts WHERE rowid BETWEEN ? AND ?", (first, last))
        database.execute("DELETE FROM sessions WHERE number = ?", row)


def _add_events(
    database: sqlite3.Connection, session_id: str, store: Store, start: int, stamp: str
) -> None:
    """Add the events from `start` up to the first that is missing or damaged."""
    database.execute("INSERT OR IGNORE INTO sessions (id) VALUES (?)", (session_id,))
    number, workspace = database.execute(
        "SELECT number, workspace FROM sessions WHERE id = ?", (session_id,)
    ).fetchone()
    event_id = start
    for record in _records(store, start):
        workspace = _workspace(record) or workspace
        if found := searchable(record):
            kind, text = found
            database.execute(
                "INSERT INTO texts (rowid, text, kind, time) VALUES (?, ?, ?, ?)",
                (
                    number * _EVENTS_A_SESSION + event_id,
                    separate_words(storable(text)),
                    kind,
                    _seconds(record),
                ),
            )
        event_id += 1
    last_stamp = store.stamp(event_id - 1) if event_id else ""
    database.execute(
        "UPDATE sessions SET workspace = ?, events = ?, folder_stamp = ?, last_stamp = ?"
        " WHERE number = ?",
        (workspace, event_id, stamp, last_stamp, number),
    )


def _records(store: Store, start: int) -> Iterator[dict[str, Any]]:
    """Yield the events from `start` up to the first that is missing or damaged, read in batches."""
    while records := store.read(range(start, start + _EVENTS_AT_ONCE)):
        yield from records
        start += len(records)


def _workspace(record: dict[str, Any]) -> str:
    extras = record.get("extras")
    if record.get("observation") != "session_started" or not isinstance(extras, dict):
        return ""
    return storable(str(extras.get("workspace", "")))


def _seconds(record: dict[str, Any]) -> float:
    try:
        moment = datetime.fromisoformat(record["timestamp"])
    except (KeyError, TypeError, ValueError):
        return 0.0
    # Without a zone it would mean another moment on another machine.
    seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return min(max(seconds, 0.0), _LATEST)


def _find(
    database: sqlite3.Connection, expression: str, workspace: str | None, limit: int
) -> list[Hit]:
    place = None if workspace is None else storable(workspace)
    rows = database.execute(_SEARCH, (expression, place, place, time.time(), limit))
    hits = []
    for session_id, event_id, kind, seconds, marked in rows:
        snippet, marks = _unmark(" ".join(marked.replace(BREAK, "").split()))
        moment = datetime.fromtimestamp(seconds, UTC)
        hits.append(Hit(session_id, event_id, kind, moment, snippet, marks))
    return hits


def _unmark(marked: str) -> tuple[str, tuple[tuple[int, int], ...]]:
    parts: list[str] = []
    marks = []
    length = 0
    for piece in marked.split(MARK_START):
        before, end, after = piece.partition(MARK_END)
        if end:
            marks.append((length, length + len(before)))
        parts += [before, after]
        length += len(before) + len(after)
    return "".join(parts), tuple(marks)
