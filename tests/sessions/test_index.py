"""Searching sessions: what is found, in what order, and an index that may break or vanish."""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentcli.errors import UsageError
from agentcli.events import Source
from agentcli.events.actions import (
    CmdRunAction,
    FileEditAction,
    MessageAction,
    SystemMessageAction,
)
from agentcli.events.observations import CmdOutputObservation, SessionStartedObservation
from agentcli.sessions.file_store import FileStore
from agentcli.sessions.search_index import full_text_expression, search
from agentcli.sessions.session import SessionLog
from agentcli.sessions.upkeep import remove
from tests.conftest import in_every_store
from tests.strategies import EVENT_CLASSES, events_of

FIRST, SECOND = "20260101-000000-aaaa", "20260102-000000-bbbb"


def said(text: str) -> MessageAction:
    return MessageAction(content=text, source=Source.USER)


def record(home: Path, session_id: str, *events, workspace: str = "/work") -> Path:
    folder = home / "sessions" / session_id
    new = not folder.exists()
    with SessionLog.create(folder) if new else SessionLog.open(folder) as session:
        if new:
            session.emit(started(session_id, workspace))
        for event in events:
            session.emit(event)
    return folder


def started(session_id: str, workspace: str) -> SessionStartedObservation:
    return SessionStartedObservation(
        version="0",
        session_id=session_id,
        model="m",
        sandbox="none",
        workspace=workspace,
        pid=1,
        host="h",
    )


def found(home: Path, query: str, **options) -> list[tuple[str, int]]:
    return [(hit.session_id, hit.event_id) for hit in search(home, query, **options)]


def let_folders_look_old(home: Path) -> None:
    for events in home.glob("sessions/*/events"):
        os.utime(events, (1, 1))


@in_every_store
def test_what_was_said_run_edited_and_printed_is_found(tmp_path, kept_in):
    record(
        tmp_path,
        FIRST,
        SystemMessageAction(content="You are helpful."),
        said("Please fix the flaky login"),
        CmdRunAction(command="pytest tests/test_login.py"),
        CmdOutputObservation(content="1 failed, 3 passed", cause=3),
        FileEditAction(path="src/session_cookie.py", old_str="a", new_str="renewed_at"),
        MessageAction(content="It was the cookie.", reasoning="expiry is off by one"),
    )
    kinds = {
        "flaky login": "user",
        "test_login.py": "call",
        "3 passed": "result",
        "session_cookie": "call",
        "renewed_at": "call",
        "cookie was": "agent",
        "off by one": "agent",
    }
    for query, kind in kinds.items():
        assert [hit.kind for hit in search(tmp_path, query)] == [kind], query
    assert search(tmp_path, "helpful") == []


def test_words_phrases_and_beginnings(tmp_path):
    record(tmp_path, FIRST, said("the quick brown fox"), said("brown and quick"))
    assert len(found(tmp_path, "quick BROWN")) == 2
    assert found(tmp_path, '"quick brown"') == [(FIRST, 1)]
    assert found(tmp_path, "fo*") == [(FIRST, 1)]
    assert found(tmp_path, '"quick bro"*') == [(FIRST, 1)]
    assert found(tmp_path, "fo") == []
    assert found(tmp_path, "quick zebra") == []


def test_words_of_scripts_without_spaces(tmp_path):
    record(tmp_path, FIRST, said("请使用pytest运行测试"))
    (hit,) = search(tmp_path, "使用")
    assert hit.snippet == "请使用pytest运行测试"
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["使用"]
    assert found(tmp_path, "pytest") == [(FIRST, 1)]
    assert found(tmp_path, "用使") == []


def test_the_snippet_is_one_line_with_the_words_marked(tmp_path):
    record(tmp_path, FIRST, said("one\n\ttwo \x02three\x03  four"))
    (hit,) = search(tmp_path, "two four")
    assert hit.snippet == "one two three four"
    assert [hit.snippet[start:end] for start, end in hit.marks] == ["two", "four"]


def test_of_like_hits_the_newer_comes_first(tmp_path):
    body = '{{"id":0,"timestamp":"{}","source":"user","action":"message","args":{{"content":"x"}}}}'
    now = datetime.now(UTC)
    for session_id, age in ((FIRST, 0), (SECOND, 400)):
        store = FileStore(tmp_path / "sessions" / session_id)
        store.open()
        store.append([(0, body.format((now - timedelta(days=age)).isoformat()).encode())])
        store.close()
    assert found(tmp_path, "x") == [(FIRST, 0), (SECOND, 0)]
    assert found(tmp_path, "x", limit=1) == [(FIRST, 0)]


@in_every_store
def test_only_sessions_of_the_workspace(tmp_path, kept_in):
    record(tmp_path, FIRST, said("word"), workspace="/one")
    record(tmp_path, SECOND, said("word"), workspace="/two")
    assert found(tmp_path, "word", workspace="/two") == [(SECOND, 1)]
    assert len(found(tmp_path, "word")) == 2


@in_every_store
def test_what_was_written_or_removed_since_is_known(tmp_path, kept_in):
    record(tmp_path, FIRST, said("alpha"))
    assert found(tmp_path, "alpha") == [(FIRST, 1)]
    record(tmp_path, FIRST, said("beta"))
    folder = record(tmp_path, SECOND, said("alpha"))
    assert found(tmp_path, "beta") == [(FIRST, 2)]
    assert len(found(tmp_path, "alpha")) == 2
    remove(tmp_path, folder)
    assert found(tmp_path, "alpha") == [(FIRST, 1)]


def test_a_session_that_did_not_change_is_not_read_again(tmp_path):
    folder = record(tmp_path, FIRST, said("alpha"))
    let_folders_look_old(tmp_path)
    assert found(tmp_path, "alpha") == [(FIRST, 1)]
    changed = (folder / "events" / "000000001.json").read_text().replace("alpha", "gamma")
    (folder / "events" / "000000001.json").write_text(changed)
    os.utime(folder / "events", (1, 1))
    assert found(tmp_path, "gamma") == []
    assert found(tmp_path, "gamma", rebuild=True) == [(FIRST, 1)]


def test_a_log_that_was_cut_and_went_on_differently_is_read_anew(tmp_path):
    folder = record(tmp_path, FIRST, said("alpha"), said("beta"))
    assert found(tmp_path, "beta") == [(FIRST, 2)]
    (folder / "events" / "000000002.json").unlink()
    record(tmp_path, FIRST, said("gamma"), said("delta"))
    assert found(tmp_path, "beta") == []
    assert found(tmp_path, "gamma") == [(FIRST, 2)]


def test_what_comes_before_damage_is_found(tmp_path):
    folder = record(tmp_path, FIRST, said("alpha"), said("beta"), said("gamma"))
    (folder / "events" / "000000002.json").write_bytes(b'{"id":2')
    assert found(tmp_path, "alpha") == [(FIRST, 1)]
    assert found(tmp_path, "gamma") == []


@pytest.mark.parametrize("kind", ["link", "fifo", "list", "deep"])
def test_events_that_are_no_events_stop_nobody(tmp_path, kind):
    folder = record(tmp_path, FIRST, said("alpha"))
    path = folder / "events" / "000000002.json"
    secret = tmp_path / "secret"
    secret.write_text('{"id":2,"action":"message","args":{"content":"outside"}}')
    if kind == "link":
        path.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.write_text("[]" if kind == "list" else "[" * 100_000)
    assert found(tmp_path, "alpha") == [(FIRST, 1)]
    assert found(tmp_path, "outside") == []


def foreign_database(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (thing)")


def no_tables(path: Path) -> None:
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE sessions")


def damaged_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100:] = os.urandom(len(data) - 100)
    path.write_bytes(data)


def garbage(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 1000)


def link(path: Path) -> None:
    target = path.with_name("target")
    path.rename(target)
    path.symlink_to(target)


def fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("spoil", [foreign_database, no_tables, damaged_pages, garbage, link, fifo])
def test_an_index_that_can_not_be_used_is_made_anew(tmp_path, spoil):
    record(tmp_path, FIRST, said("alpha"))
    path = tmp_path / "index.sqlite"
    if spoil is not foreign_database:
        search(tmp_path, "alpha")
    spoil(path)
    assert found(tmp_path, "alpha") == [(FIRST, 1)]
    assert stat.S_ISREG(path.lstat().st_mode)
    assert path.stat().st_mode & 0o777 == 0o600
    with sqlite3.connect(path) as database:
        assert database.execute("SELECT id FROM sessions").fetchall() == [(FIRST,)]


def test_an_index_that_another_holds_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("agentcli.sessions.search_index._PATIENCE_S", 0)
    record(tmp_path, FIRST, said("alpha"))
    search(tmp_path, "alpha")
    record(tmp_path, FIRST, said("beta"))
    with sqlite3.connect(tmp_path / "index.sqlite", isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert found(tmp_path, "beta") == [(FIRST, 2)]
        other.execute("COMMIT")
    assert found(tmp_path, "beta") == [(FIRST, 2)]


def test_without_a_place_for_it_the_index_is_in_memory(tmp_path):
    record(tmp_path, FIRST, said("alpha"))
    (tmp_path / "index.sqlite").mkdir()
    assert found(tmp_path, "alpha") == [(FIRST, 1)]


def test_nobody_else_may_read_the_index(tmp_path):
    record(tmp_path, FIRST, said("alpha"))
    (tmp_path / "index.sqlite").touch(0o666)
    (tmp_path / "index.sqlite").chmod(0o666)
    search(tmp_path, "alpha")
    assert (tmp_path / "index.sqlite").stat().st_mode & 0o777 == 0o600


def test_no_sessions_at_all(tmp_path):
    assert search(tmp_path / "none", "alpha") == []


@pytest.mark.parametrize("query", ["", '"', "-", "* *", '""', "\0", "x" * 3000, "x " * 100])
def test_a_query_without_a_word_or_with_far_too_many_is_refused(tmp_path, query):
    with pytest.raises(UsageError):
        search(tmp_path, query)


@settings(max_examples=300)
@given(st.text(st.characters(), max_size=60) | st.text('"*-:^()+ NEARANDOT{}a', max_size=30))
@example('"')
@example("AND")
@example("-x")
@example("foo:bar")
@example("NEAR(a b, 2)")
@example("{a b} : c")
@example("^a OR (b")
@example("\udcff a")
@example('a" "b')
def test_any_query_has_an_answer(query):
    try:
        expression = full_text_expression(query)
    except UsageError:
        return
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("CREATE VIRTUAL TABLE t USING fts5 (text)")
        database.execute("INSERT INTO t VALUES ('something')")
        database.execute("SELECT * FROM t WHERE t MATCH ?", (expression,)).fetchall()


@pytest.mark.parametrize("query", ["foo:bar", "-bar", "(bar", "bar)", "^bar", "foo OR bar"])
def test_what_looks_like_an_operator_is_text(tmp_path, query):
    record(tmp_path, FIRST, said("foo bar, or not"), said("something else"))
    assert found(tmp_path, query) == [(FIRST, 1)]


@settings(max_examples=100)
@given(st.data())
def test_events_of_every_class_can_be_taken_in(tmp_path_factory, data):
    home = tmp_path_factory.mktemp("home")
    some = [data.draw(events_of(cls)) for cls in data.draw(st.permutations(EVENT_CLASSES))[:3]]
    record(home, FIRST, *some, said("needle at the end"))
    assert (FIRST, len(some) + 1) in found(home, "needle end")
