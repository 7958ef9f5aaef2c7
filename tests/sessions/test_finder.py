"""Which session a person means: by id, start, name, newness; and who has it open."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentcli.errors import UsageError
from agentcli.events import ReplyPart, Source
from agentcli.events.actions import MessageAction
from agentcli.events.observations import SessionStartedObservation
from agentcli.sessions.finder import find, in_use_by, newest, offered, session_states, state_of
from agentcli.sessions.session import SessionLog
from agentcli.sessions.state import load_state, save_state
from tests.conftest import in_every_store

HERE, ELSEWHERE = Path("/w/here"), Path("/w/elsewhere")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def make(home):
    """Make a session that was used at second `used`."""

    def make(session_id, task="do it", *, used=0, workspace=HERE, name=None):
        folder = home / "sessions" / session_id
        with SessionLog.create(folder) as session:
            session.emit(started(session_id, workspace, name))
            if task:
                session.emit(MessageAction(content=task, source=Source.USER))
        if (folder / "events").exists():
            os.utime(folder / "events", (used, used))
        return folder

    return make


def started(session_id, workspace, name=None):
    return SessionStartedObservation(
        version="0",
        session_id=session_id,
        model="m",
        sandbox="none",
        workspace=str(workspace),
        pid=1,
        host="h",
        name=name,
    )


@pytest.mark.parametrize("name", [b"red\x1b[31m", b"two\nlines", b"\xff", "\u202e".encode()])
def test_what_no_session_is_called_is_none_whatever_it_holds(home, make, name):
    make("20260101-000000-aaaa")
    os.mkdir(os.path.join(os.fsencode(home), b"sessions", name))  # noqa: PTH102, PTH118
    assert [folder.name for folder, _ in session_states(home)] == ["20260101-000000-aaaa"]
    with pytest.raises(UsageError):
        find(home, os.fsdecode(name))


def test_the_newest_is_the_one_used_last_not_the_one_made_last(home, make):
    old = make("20260101-000000-aaaa", used=200)
    make("20260102-000000-bbbb", used=100)
    elsewhere = make("20260103-000000-cccc", used=300, workspace=ELSEWHERE)
    assert newest(home, HERE) == old
    assert newest(home, None) == elsewhere
    with pytest.raises(UsageError, match="no session in /w/none yet"):
        newest(home, Path("/w/none"))


def test_what_is_offered_comes_in_order_of_use(home, make):
    make("20260101-000000-aaaa", used=200)
    make("20260102-000000-bbbb", used=300)
    make("20260103-000000-cccc", used=100, workspace=ELSEWHERE)
    assert [found.folder.name[-4:] for found in offered(home, HERE)] == ["bbbb", "aaaa"]
    assert [found.folder.name[-4:] for found in offered(home, None)] == ["bbbb", "aaaa", "cccc"]


def test_sub_sessions_and_those_without_a_task_are_not_offered(home, make):
    mine = make("20260101-000000-aaaa", used=100)
    make("20260101-000000-dddd", task="", used=400)
    child = make("20260102-000000-bbbb", used=300)
    state = load_state(child / "state.pkl")
    save_state(child / "state.pkl", replace(state, parent_id=mine.name, delegate_level=1))
    (home / "sessions" / "20260105-000000-empty").mkdir()
    assert newest(home, HERE) == mine
    assert [found.folder for found in offered(home, None)] == [mine]
    assert find(home, child.name) == child


@in_every_store
def test_a_session_is_found_by_id_by_a_start_that_is_unique_or_by_name(home, make, kept_in):
    first = make("20260101-000000-aaaa", name="tidy")
    second = make("20260102-000000-bbbb")
    assert find(home, first.name) == first
    assert find(home, "20260102") == second
    assert find(home, "tidy") == first
    with pytest.raises(UsageError, match="matches several sessions"):
        find(home, "2026")


@pytest.mark.parametrize("wanted", ["", ".", "..", "../sessions", "/", "no/such", "\0"])
def test_what_is_no_name_finds_nothing(home, make, wanted):
    make("20260101-000000-aaaa")
    with pytest.raises(UsageError, match="there is no session"):
        find(home, wanted)


@pytest.mark.parametrize(
    ("wanted", "near"),
    [
        ("tidi", "tidy"),
        ("fix the failing tests", "tidy (Fix the failing test)"),
        ("20260101-000000-aaab", "20260101-000000-aaaa"),
    ],
)
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(home, make, wanted, near):
    make("20260101-000000-aaaa", "Fix the failing test", name="tidy")
    make("20260201-111111-bbbb", "something else")
    with pytest.raises(UsageError) as raised:
        find(home, wanted)
    assert raised.value.hint == f"did you mean {near}?"


def test_the_state_counts_what_came_after_it_was_saved(home, make):
    folder = make("20260101-000000-aaaa")
    saved = (folder / "state.pkl").read_bytes()
    with SessionLog.open(folder) as session:
        for number in range(3):
            part = ReplyPart(id=str(number), index=0, total=1)
            session.emit(MessageAction(content="a reply", reply=part))
    (folder / "state.pkl").write_bytes(saved)
    assert load_state(folder / "state.pkl").iteration == 0
    assert state_of(folder).iteration == 3
    (folder / "events" / "000000004.json").write_text("torn")
    assert state_of(folder).iteration == 2


def test_a_session_that_cannot_be_read_is_still_listed(home, make):
    folder = make("20260101-000000-aaaa")
    (folder / "state.pkl").unlink()
    (folder / "events" / "000000000.json").write_text("{}")
    (home / "sessions" / "20260102-000000-bbbb").mkdir()
    listed = [folder.name[-4:] for folder, _ in session_states(home)]
    assert listed == ["bbbb", "aaaa"]
    assert list(offered(home, None)) == []


def test_a_home_without_sessions(home):
    assert list(session_states(home)) == []
    with pytest.raises(UsageError, match="there is no session yet"):
        newest(home, None)


@in_every_store
def test_the_process_that_has_a_session_open_is_known(make, kept_in):
    folder = make("20260101-000000-aaaa")
    assert in_use_by(folder) is None
    with SessionLog.open(folder):
        assert in_use_by(folder) == os.getpid()
        assert in_use_by(folder) == os.getpid(), "looking must not take the lock away"
    assert in_use_by(folder) is None


def test_a_killed_process_has_nothing_open(make):
    folder = make("20260101-000000-aaaa")
    program = (
        "import sys; from pathlib import Path; from agentcli.sessions.session import SessionLog\n"
        "session = SessionLog.open(Path(sys.argv[1])); print('open', flush=True); sys.stdin.read()"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert child.stdout.readline() == b"open\n"
    assert in_use_by(folder) == child.pid
    child.send_signal(signal.SIGKILL)
    child.communicate()
    assert in_use_by(folder) is None


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"pid": "x", "host": "h"}', '{"pid": 99999999999999, "host": "h"}']
)
def test_a_lock_file_of_any_content_is_borne(make, content):
    folder = make("20260101-000000-aaaa")
    (folder / "session.lock").write_text(content)
    assert in_use_by(folder) is None
