"""Sessions in a database: always one writer, complete copies, and faults explained to people."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event

from agentcli.errors import SessionError, UsageError
from agentcli.events import Source, event_to_dict
from agentcli.events.actions import MessageAction
from agentcli.events.observations import RequirementJudgedObservation
from agentcli.events.texts import compact_json
from agentcli.sessions import selected_store, set_store_selector
from agentcli.sessions.database_schema import event_row
from agentcli.sessions.export import exporter, trajectory_of
from agentcli.sessions.finder import session_states
from agentcli.sessions.library import library_at, library_of, store_of
from agentcli.sessions.session import SessionLog, read_session
from agentcli.sessions.staging import sweep
from agentcli.sessions.transfer import Copied, copy_session, import_session
from tests.conftest import in_every_store
from tests.databases import PASSWORD
from tests.emulated import Emulated
from tests.server import Call, Reply

FIRST, SECOND = "20260101-000000-aaaa", "20260102-000000-bbbb"
in_a_database = pytest.mark.parametrize("kept_in", ["sqlite", "postgresql"], indirect=True)
in_sqlite = pytest.mark.parametrize("kept_in", ["sqlite"], indirect=True)
in_postgresql = pytest.mark.parametrize("kept_in", ["postgresql"], indirect=True)
_HOLDS_IT = """
import sys; from pathlib import Path
from agentcli.sessions.session import SessionLog
from agentcli.sessions import set_store_selector
set_store_selector(lambda home: sys.argv[2]); session = SessionLog.open(Path(sys.argv[1]))
print("open", flush=True); sys.stdin.read()
"""


def said(text: str) -> MessageAction:
    return MessageAction(content=text, source=Source.USER)


def record(folder: Path, *texts: str) -> Path:
    new = not store_of(folder).exists()
    with SessionLog.create(folder) if new else SessionLog.open(folder) as session:
        for text in texts:
            session.emit(said(text))
    return folder


def contents(folder: Path) -> list[str]:
    return [each.content for each in read_session(folder).events]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / FIRST


@in_every_store
def test_a_session_reads_back_and_goes_on(folder, kept_in):
    texts = [f"number {n} \0 \u2028 {'x' * n}" for n in range(250)]
    record(folder, *texts)
    state = read_session(folder).state
    assert contents(folder) == texts
    assert [s for _, s in session_states(folder.parents[1])] == [state]
    assert state.end_id == 249
    record(folder, "more")
    assert contents(folder)[-2:] == [texts[-1], "more"]


def test_a_class_has_the_same_name_in_the_database_whatever_it_is_called_now():
    judged = RequirementJudgedObservation(id=1, requirement="tests", met=True)
    names = []
    for each in (said("x"), judged):
        names.append(event_row(FIRST, 1, compact_json(event_to_dict(each)))["event_class"])
    assert names == ["MessageAction", "RequirementObservation"]


@in_every_store
def test_a_session_is_not_made_twice_nor_lost_by_it(folder, kept_in):
    record(folder, "mine")
    with pytest.raises(SessionError):
        SessionLog.create(folder)
    assert contents(folder) == ["mine"]


@in_every_store
def test_a_killed_process_locks_nobody_out(folder, kept_in):
    record(folder, "hi")
    command = [sys.executable, "-c", _HOLDS_IT, str(folder), selected_store(folder.parents[1])]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"open\n"
        assert store_of(folder).holder().pid == child.pid
        with pytest.raises(UsageError, match=f"process {child.pid}"):
            SessionLog.open(folder)
        child.send_signal(signal.SIGKILL)
    # The server learns of it when it looks at the connection next.
    assert any(store_of(folder).holder() is None for _ in range(10_000))
    record(folder, "and on")
    assert contents(folder) == ["hi", "and on"]


@in_a_database
def test_who_lost_the_lock_unknowingly_writes_nothing_more(folder, kept_in):
    """As when the connection with the lock broke, and another process went on."""
    with SessionLog.create(folder) as first:
        first.emit(said("mine"))
        first._lock._release_lock()
        record(folder, "somebody else's")
        for _ in range(2):
            with pytest.raises(SessionError, match="taken over by another process"):
                first.emit(said("too late"))
    assert contents(folder) == ["mine", "somebody else's"]


@in_postgresql
def test_a_connection_that_is_cut_ends_the_right_to_write(folder, kept_in, postgresql):
    with SessionLog.create(folder) as first:
        first.emit(said("mine"))
        postgresql.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
        )
        for _ in range(2):
            with pytest.raises(SessionError, match="can't be written") as told:
                first.emit(said("lost"))
        assert told.value.exit_code == 1
    assert contents(record(folder, "again")) == ["mine", "again"]


@in_sqlite
def test_a_file_that_is_taken_away_is_not_written_to(folder, kept_in):
    database = folder.parents[1] / "sessions.db"
    with SessionLog.create(folder) as session:
        session.emit(said("kept"))
        database.rename(database.with_name("away"))
        with pytest.raises(SessionError, match="was removed or replaced"):
            session.emit(said("lost"))
        database.with_name("away").rename(database)
    assert contents(folder) == ["kept"]


@in_a_database
def test_a_copy_is_whole_and_made_once(folder, kept_in):
    home = folder.parents[1]
    files, database = library_at(home, "files"), library_of(home)
    texts = [str(number) for number in range(230)]
    set_store_selector(lambda home: "files")
    record(folder, *texts)
    assert copy_session(home, FIRST, files, database) == Copied(FIRST, 230, 230)
    assert copy_session(home, FIRST, files, database) == Copied(FIRST, 230, 0)
    record(folder, "later")
    assert copy_session(home, FIRST, files, database) == Copied(FIRST, 231, 1)
    (folder / "events").rename(folder / "away")
    assert list(files.states()) == [] or not files.store(folder).exists()
    assert copy_session(home, FIRST, database, files) == Copied(FIRST, 231, 231)
    assert contents(folder) == [*texts, "later"]
    assert not list(home.glob("sessions.scrap/*"))


def test_schemas_of_one_server_are_two_stores(agent, postgresql):
    one, two = postgresql.database(), postgresql.database()
    agent.env["AGENT_STORE"] = one
    assert agent("demo").returncode == 0
    done = agent("sessions", "copy", "--all", "--to", two)
    assert done.returncode == 0, done.stderr
    assert f"1 session copied to {two.replace('%3D', '=')}" in done.stdout.replace("%3D", "=")
    assert agent("sessions", "copy", "--all", "--to", one).returncode == 2
    agent.env["AGENT_STORE"] = two
    assert len(json.loads(agent("sessions", "list", "--all", "--json").stdout)) == 1


@pytest.mark.parametrize("removed", ["files", "database"])
def test_removing_a_copy_leaves_the_other_whole(agent, repository, serve, removed):
    """Both share a folder, with the outputs and the snapshots."""
    write = Call("write", {"path": "new.txt", "content": "hi"})
    agent.use(serve([Reply("", [write]), Reply("Done.")]))
    assert agent("run", "--yolo", "go").returncode == 0
    stores = {"files": "files", "database": "sqlite:///copy.db"}
    assert agent("sessions", "copy", "--all", "--to", stores["database"]).returncode == 0
    agent.env["AGENT_STORE"] = stores.pop(removed)
    [folder] = agent.sessions
    done = agent("sessions", "rm", folder.name, "--yes")
    assert done.returncode == 0, done.stderr
    assert json.loads(agent("sessions", "list", "--json").stdout) == []
    [agent.env["AGENT_STORE"]] = stores.values()
    assert "Done." in agent("sessions", "show", folder.name).stdout
    assert (repository / "new.txt").exists()
    undone = agent("undo")
    assert undone.returncode == 0, undone.stderr
    assert not (repository / "new.txt").exists()
    assert agent("sessions", "rm", folder.name, "--yes").returncode == 0
    assert agent.sessions == []
    assert not list((agent.home / "state").glob("sessions.scrap/*"))


def test_a_session_without_events_is_no_failure_of_copying(agent, postgresql):
    agent.env["AGENT_STORE"] = place = postgresql.database()
    assert agent("demo").returncode == 0
    schema = place.rpartition("%3D")[2]
    postgresql.execute(
        f"INSERT INTO {schema}.sessions SELECT '{FIRST}', \"user\", agent, 0, 'idle', NULL, NULL,"
        f" '{{}}', 0, 0, NULL FROM {schema}.sessions"
    )
    done = agent("sessions", "copy", "--all", "--to", "sqlite:///copy.db")
    assert done.returncode == 0, done.stderr
    assert f"{FIRST}  has no events" in done.stdout
    assert "1 session copied" in done.stdout


def test_the_session_of_another_role_is_named_as_theirs(agent, postgresql):
    agent.env["AGENT_STORE"] = place = postgresql.database()
    assert agent("demo").returncode == 0
    schema = place.rpartition("%3D")[2]
    postgresql.execute("DROP ROLE IF EXISTS another")
    postgresql.execute("CREATE ROLE another LOGIN SUPERUSER")
    theirs = place.replace("//agent@", "//another@")
    done = agent("sessions", "copy", "--all", "--to", theirs)
    assert done.returncode == 1
    assert "belongs to agent, not to you (another)" in done.stderr
    postgresql.execute("ALTER ROLE another NOSUPERUSER")
    postgresql.execute(f"GRANT USAGE ON SCHEMA {schema} TO another")
    postgresql.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO another")
    agent.env["AGENT_STORE"] = theirs
    done = agent("demo")
    assert done.returncode == 1
    assert "permission denied for table sessions" in done.stderr
    assert "this role needs SELECT, INSERT" in done.stderr


@in_a_database
def test_what_went_on_in_two_stores_is_not_mixed(folder, kept_in):
    home = folder.parents[1]
    place = selected_store(home)
    files, database = library_at(home, "files"), library_at(home, place)
    set_store_selector(lambda home: "files")
    record(folder, "a")
    copy_session(home, FIRST, files, database)
    record(folder, "here")
    set_store_selector(lambda home: place)
    record(folder, "there")
    with pytest.raises(SessionError, match="is a different one, or went on there"):
        copy_session(home, FIRST, files, database)
    assert contents(folder) == ["a", "there"]


@in_a_database
def test_an_import_that_was_killed_before_it_had_its_folder_is_finished(folder, kept_in):
    home = folder.parents[1]
    exported = home / "exported.jsonl"
    exported.write_text(
        "".join(exporter("jsonl")(trajectory_of(read_session(record(folder, "hi")), lambda d: d)))
    )
    imported = import_session(home, exported, lambda data: data).folder
    assert contents(imported) == ["hi"]
    (imported / "outputs" / "1.log").write_text("in full")
    imported.rename(home / "sessions.scrap" / f"{imported.name}-0123abcd")
    assert sweep(home, pytest.fail) == []
    assert (imported / "outputs" / "1.log").read_text() == "in full"


@in_sqlite
def test_a_list_reads_no_events(folder, kept_in):
    for number in range(5):
        record(folder.with_name(f"{FIRST}-{number}"), "hi", "there")
    asked: list[str] = []
    engine = library_of(folder.parents[1]).database.engine
    event.listen(engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    assert len(list(session_states(folder.parents[1]))) == 5
    assert [statement for statement in asked if statement != "BEGIN"] == [asked[-1]]
    assert "FROM sessions" in asked[-1]


def test_a_session_just_made_can_be_removed(agent):
    agent.env["AGENT_STORE"] = "sqlite:///sessions.db"
    assert agent("demo").returncode == 0
    [folder] = agent.sessions
    done = agent("sessions", "rm", folder.name, "--yes")
    assert done.returncode == 0, done.stderr
    assert not folder.exists()
    assert json.loads(agent("sessions", "list", "--all", "--json").stdout) == []


@in_sqlite
def test_an_event_that_is_gone_or_damaged_is_named(folder, kept_in):
    record(folder, *map(str, range(5)))
    with closing(sqlite3.connect(folder.parents[1] / "sessions.db")) as database, database:
        database.execute("DELETE FROM events WHERE sequence_number = 3")
    with pytest.raises(SessionError, match="event 3 is missing"):
        SessionLog.open(folder)
    assert contents(folder) == ["0", "1", "2"]
    with closing(sqlite3.connect(folder.parents[1] / "sessions.db")) as database, database:
        database.execute("UPDATE events SET event_data = '{' WHERE sequence_number = 1")
    with pytest.raises(SessionError, match="event 1 is damaged"):
        SessionLog.open(folder)


def test_two_machines_are_kept_apart_and_told_what_is_not_there(agent, serve, postgresql):
    """Two homes stand for two machines."""
    long = "for n in $(seq 20000); do echo line $n; done"
    command = Call("bash", {"command": long})
    server = serve([Reply("", [command]), Reply("A."), Reply("B."), Reply("C.")])
    agent.use(server).env["AGENT_STORE"] = postgresql.database()
    assert agent("run", "--yolo", "go").stdout == "A.\n"
    session = agent.sessions[0].name
    agent.env["AGENT_HOME"] = str(agent.home / "other")
    shown = agent("sessions", "show", session, "--full")
    assert shown.returncode == 0, shown.stderr
    assert "is not here; its ends are shown" in shown.stderr
    assert "resumed on this machine" in agent("tell", session, "and tidy up").stdout
    gone_on = agent("resume", session, "more")
    assert gone_on.stdout == "C.\n", gone_on.stderr
    assert server.requests[-1].raw.count(b"on another machine before") == 1


def test_a_conversation_goes_on_once_its_database_is_there_again(agent, serve, postgresql):
    server = serve([Reply("First answer."), Reply("Second answer.")])
    agent.use(server).env["AGENT_STORE"] = postgresql.database()
    terminal = Emulated(agent.command, agent.workspace, agent.environment, columns=80)
    try:
        terminal.until("Shift-Tab")
        terminal.type("remember 4711\r").until("done in")
        postgresql.stop()
        try:
            terminal.type("second\r").until("can't be written")
            terminal.type("\r").until("can't be read")
        finally:
            postgresql.start()
        terminal.type("\r").until("Second answer.")
    finally:
        terminal.close()
    assert b"remember 4711" in server.requests[-1].raw
    assert len(agent.sessions) == 1


@pytest.mark.parametrize(
    ("store", "code", "told"),
    [
        ("mysql://me:{password}@localhost/x", 3, "no store of the kind 'mysql'"),
        ("{password}", 3, "no URL of a database"),
        ("sqlite:///:memory:", 3, "followed by a path"),
        ("postgresql://me:x@{password}@127.0.0.1:{port}/x", 3, "written as %40"),
        ("postgresql://me@127.0.0.1/x?password={password}&sslmode={password}", 3, 'value: "***"'),
        ("sqlite:///sessions.db?mode=ro", 3, "takes no parameters: mode"),
        ("sqlite:///no-database", 3, "file is not a database"),
        ("sqlite:///foreign.db", 3, "tables that are not agent's: events"),
        ("sqlite:///newer.db", 1, "made by a newer version of agent"),
        ("sqlite:///older.db", 1, "made by an older version of agent"),
        ("postgresql://me:{password}@127.0.0.1:1/x", 3, "Connection refused"),
        ("postgresql://locked:{password}@127.0.0.1:{port}/postgres", 3, "authentication failed"),
        ("postgresql://agent:{password}@127.0.0.1:{port}/none", 3, '"none" does not exist'),
    ],
)
def test_what_is_wrong_with_a_database_is_told_without_its_password(
    agent, postgresql, store, code, told
):
    home = agent.home / "state"
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "no-database").write_text("something else\n" * 100)
    for name, statement in {
        "foreign": "CREATE TABLE events (x)",
        "newer": "CREATE TABLE agent_schema AS SELECT 99 AS version",
        "older": "CREATE TABLE agent_schema AS SELECT 0 AS version",
    }.items():
        with closing(sqlite3.connect(home / f"{name}.db")) as database:
            database.execute(statement)
            database.commit()
    if "locked" in store:
        postgresql.execute("DROP ROLE IF EXISTS locked")
        postgresql.execute("CREATE ROLE locked LOGIN PASSWORD 'another'")
    agent.env["AGENT_STORE"] = store.format(password=PASSWORD, port=postgresql.port)
    done = agent("sessions", "list")
    assert done.returncode == code, done.stderr
    assert told in done.stderr
    assert PASSWORD not in done.stdout + done.stderr


@pytest.mark.own_start
@pytest.mark.parametrize("missing", ["sqlalchemy", "psycopg"])
def test_what_is_not_installed_is_named_with_what_installs_it(agent, tmp_path, missing):
    (tmp_path / "lib" / missing).mkdir(parents=True)
    init = tmp_path / "lib" / missing / "__init__.py"
    init.write_text(f"raise ModuleNotFoundError('not here', name={missing!r})")
    agent.env |= {"AGENT_STORE": "postgresql://x@localhost/x", "PYTHONPATH": str(init.parents[1])}
    done = agent("sessions", "list")
    assert done.returncode == 3
    assert "pip install 'agentcli[database]'" in done.stderr


def test_sessions_are_not_kept_where_commands_write(agent, serve):
    agent.use(serve([]))
    agent.env["AGENT_STORE"] = f"sqlite:///{agent.workspace}/sessions.db"
    agent.workspace.chmod(0o700)
    done = agent("run", "hi")
    assert done.returncode == 3
    assert "commands of this one could change" in done.stderr


def test_a_project_has_no_say_in_where_sessions_are(agent):
    settings = agent.workspace / ".agent" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('[sessions]\nstore = "sqlite:///theirs.db"\n')
    agent("trust", "--yes")
    assert agent("sessions", "list").returncode == 0
    assert not list(agent.home.rglob("theirs.db*"))
    shown = agent("config", "show")
    assert 'sessions.store = "files"' in shown.stdout


def test_a_password_in_the_settings_is_not_shown(agent):
    agent.env["AGENT_CONFIG"] = str(agent.home / "config.toml")
    store = f"postgresql://me:{PASSWORD}@127.0.0.1:1/x?password={PASSWORD}"
    for arguments in (("set", "sessions.store", store), ("show",), ("show", "--json")):
        done = agent("config", *arguments)
        assert PASSWORD not in done.stdout + done.stderr
    assert "***" in done.stdout
    assert PASSWORD in (agent.home / "config.toml").read_text()


def test_the_file_is_nobody_elses_to_read(agent):
    agent.env["AGENT_STORE"] = "sqlite:///kept/sessions.db"
    assert agent("demo").returncode == 0
    made = list((agent.home / "state" / "kept").rglob("*"))
    assert made
    for path in [agent.home / "state" / "kept", *made]:
        assert path.stat().st_mode & 0o077 == 0, path
        assert path.stat().st_uid == os.geteuid()
