"""A session's files: what is written when, and what a log that ends anywhere is made into."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.agent.think import deliver_queued
from agentcli.errors import SessionError, UsageError
from agentcli.events import ReplyPart, Source, ToolCallMetadata
from agentcli.events.actions import CmdRunAction, FileReadAction, MessageAction
from agentcli.events.observations import (
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    ReplyDiscardedObservation,
)
from agentcli.security.redact import Redactor
from agentcli.sessions.file_store import FileStore
from agentcli.sessions.inbox import put
from agentcli.sessions.session import SessionLog, read_session
from agentcli.sessions.state import (
    TRANSITIONS,
    AgentState,
    State,
    apply,
    fold,
    load_state,
    save_state,
)
from tests.agent.parts import agent_of
from tests.conftest import in_every_store
from tests.strategies import events, histories


def command(text: str, index: int = 0, total: int = 1, **fields) -> CmdRunAction:
    call = ToolCallMetadata(function_name="bash", tool_call_id=f"c{index}", raw_arguments="{}")
    return CmdRunAction(
        command=text,
        tool_call_metadata=call,
        reply=ReplyPart(id="r", index=index, total=total),
        **fields,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "sessions" / "20260101-000000-abcd"


def test_events_are_files_named_by_their_id_and_only_mine_to_read(folder):
    with SessionLog.create(folder) as session:
        session.emit(MessageAction(content="hi", source=Source.USER))
    files = sorted((folder / "events").iterdir())
    assert [file.name for file in files] == ["000000000.json"]
    for path in [folder, *folder.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_a_session_reads_back_as_it_was_over_several_pages(folder):
    with SessionLog.create(folder) as session:
        for number in range(250):
            session.emit(MessageAction(content=str(number), source=Source.USER))
        written, state = session.events, session.state
    assert sorted(path.name for path in (folder / "event_cache").iterdir()) == [
        "0-99.json",
        "100-199.json",
    ]
    assert read_session(folder).events == written
    (folder / "event_cache" / "0-99.json").write_text("garbage")
    (folder / "state.pkl").unlink()
    with SessionLog.open(folder) as again:
        assert again.events == written
        assert again.state == state
        again.emit(MessageAction(content="more", source=Source.USER))
    assert len(read_session(folder).events) == 251


def test_a_page_that_can_not_be_written_is_done_without(folder):
    with SessionLog.create(folder) as session:
        (folder / "event_cache").rmdir()
        (folder / "event_cache").write_text("in the way")
        for number in range(150):
            session.emit(MessageAction(content=str(number), source=Source.USER))
        written = session.events
    assert read_session(folder).events == written


def test_a_session_that_is_closed_leaves_no_file_open(folder):
    def open_files() -> list[str]:
        targets = (os.path.realpath(entry) for entry in Path("/proc/self/fd").iterdir())
        return [target for target in targets if target.startswith(str(folder))]

    with SessionLog.create(folder) as session:
        session.emit(MessageAction(content="x", source=Source.USER))
        assert open_files() != []
    assert open_files() == []


def test_names_that_were_not_synced_are_synced_with_the_next_append(folder, monkeypatch):
    synced: list[Path] = []

    def sync(fd: int) -> None:
        synced.append(Path(f"/proc/self/fd/{fd}").readlink())

    with SessionLog.create(folder):
        pass
    store = FileStore(folder).open()
    monkeypatch.setattr(os, "fsync", sync)
    seen = []
    for number, barrier in enumerate([True, False, False, True, False]):
        synced.clear()
        store.append([(number, b"{}")], barrier=barrier)
        assert synced[0] != folder / "events", "the event is synced before its name"
        seen.append(synced[1:] == [folder / "events"])
    store.close()
    assert seen == [True, False, True, True, False]


def test_a_torn_last_event_is_set_aside(folder):
    with SessionLog.create(folder) as session:
        session.emit(MessageAction(content="hi", source=Source.USER))
    torn = folder / "events" / "000000001.json"
    torn.write_text('{"id":1,"tim')
    with SessionLog.open(folder) as again:
        assert len(again.events) == 1
    assert torn.with_suffix(".torn").exists()


@in_every_store
def test_a_reply_of_which_a_part_is_missing_is_discarded(folder, kept_in):
    with SessionLog.create(folder) as session:
        session.emit_group([command("a", 0, 2)])
    with SessionLog.open(folder) as again:
        assert isinstance(again.events[1], ReplyDiscardedObservation)
        assert again.pending_actions() == []


@in_every_store
def test_open_actions_are_accounted_for_once(folder, kept_in):
    with SessionLog.create(folder) as session:
        session.change_state(AgentState.RUNNING)
        session.emit_group([command("a", 0, 2), command("b", 1, 2)])
    for _ in range(2):
        with SessionLog.open(folder) as again:
            told = [e for e in again.events if isinstance(e, ErrorObservation)]
            assert ["unknown" in e.content for e in told] == [True, False]
            assert "Not started" in told[1].content
            assert again.state.agent_state is AgentState.PAUSED


def test_reads_that_ran_side_by_side_are_all_unknown(folder):
    reads = [
        FileReadAction(path=str(number), **command("", number, 3).model_dump(include={"reply"}))
        for number in range(3)
    ]
    call = ToolCallMetadata(function_name="read", tool_call_id="c", raw_arguments="{}")
    with SessionLog.create(folder) as session:
        session.emit_group([read.model_copy(update={"tool_call_metadata": call}) for read in reads])
    with SessionLog.open(folder) as again:
        told = [e.content for e in again.events if isinstance(e, ErrorObservation)]
        assert all("unknown" in content for content in told)


@in_every_store
def test_what_awaits_approval_is_asked_again(folder, kept_in):
    with SessionLog.create(folder) as session:
        session.change_state(AgentState.RUNNING)
        action = session.emit_group([command("rm x")])[0]
        session.emit(DecisionObservation(cause=action.id, decision="ask", by="policy"))
        session.change_state(AgentState.AWAITING_USER_CONFIRMATION)
    with SessionLog.open(folder) as again:
        assert [a.id for a in again.pending_actions()] == [action.id]
        assert again.state.agent_state is AgentState.PAUSED


@in_every_store
def test_one_writer_at_a_time(folder, kept_in):
    with SessionLog.create(folder), pytest.raises(UsageError, match=f"process {os.getpid()}"):
        SessionLog.open(folder)
    SessionLog.open(folder).close()


def test_secrets_are_masked_in_files_and_events_but_not_in_what_is_carried_out(folder):
    secret = "hunter2-and-some-more"
    told = []

    class Listener:
        def on_event(self, event):
            told.append(event)

        def on_progress(self, progress):
            pass

    with SessionLog.create(folder) as session:
        session.redact = Redactor([secret])
        session.subscribe(Listener())
        session.emit(command(f"login {secret}"))
        assert session.pending_actions()[0].command == f"login {secret}"
        assert session.events[0].command == "login [redacted]"
        assert told[0].command == "login [redacted]"
    assert all(
        secret.encode() not in path.read_bytes() for path in folder.rglob("*") if path.is_file()
    )


@in_every_store
def test_text_that_is_no_unicode_is_stored_readable(folder, kept_in):
    with SessionLog.create(folder) as session:
        session.emit(CmdOutputObservation(content="a\ud800b\0c"))
    assert read_session(folder).events[0].content == "a\ufffdb\0c"


def test_a_subscriber_that_fails_is_dropped_and_stops_nothing(folder):
    class Broken:
        def on_event(self, event):
            raise RuntimeError("no")

        def on_progress(self, progress):
            raise RuntimeError("no")

    with SessionLog.create(folder) as session:
        session.subscribe(Broken())
        session.emit(MessageAction(content="a", source=Source.USER))
        session.emit(MessageAction(content="b", source=Source.USER))
        assert len(session.events) == 2


def test_a_full_disk_is_named_before_anything_is_acted_on(folder, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    with SessionLog.create(folder) as session:
        session.emit(MessageAction(content="a", source=Source.USER))
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(SessionError, match="No space left"):
                session.emit(command("rm x"))
        assert session.pending_actions() == []
        with pytest.raises(SessionError, match="No space left"):
            session.emit(MessageAction(content="b", source=Source.USER))
    with SessionLog.open(folder) as again:
        again.emit(MessageAction(content="c", source=Source.USER))
    assert [e.content for e in read_session(folder).events] == ["a", "c"]


def test_on_a_full_disk_the_reserve_holds_what_was_going_on(folder, monkeypatch):
    with SessionLog.create(folder) as session:
        session.change_state(AgentState.RUNNING)
        write = os.fsync

        def full_while_reserved(fd):
            if (folder / "reserve").exists():
                raise OSError(errno.ENOSPC, "No space left on device")
            write(fd)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full_while_reserved)
            with pytest.raises(SessionError, match="No space left"):
                session.emit_group([command("rm x", 0, 2), command("rm y", 1, 2)])
    stored = read_session(folder)
    assert [e.command for e in stored.events if isinstance(e, CmdRunAction)] == ["rm x", "rm y"]
    told = [e.content for e in stored.events if isinstance(e, ErrorObservation)]
    assert told == ["Not started: the disk was full."] * 2
    assert stored.state.agent_state is AgentState.ERROR
    with SessionLog.open(folder) as again:
        assert again.pending_actions() == []
        assert (folder / "reserve").stat().st_blocks * 512 >= 128 * 1024


@in_every_store
def test_old_events_are_read_from_the_disk_when_asked_for(folder, kept_in):
    with SessionLog.create(folder) as session:
        for number in range(1050):
            session.emit(MessageAction(content=str(number), source=Source.USER))
        assert [e.content for e in session.events] == [str(n) for n in range(1050)]
        assert session.events[7].content == "7"
        assert [e.content for e in session.events[98:102]] == ["98", "99", "100", "101"]
        assert len(session.events._recent) <= 400
        assert session.events == read_session(folder).events


def test_a_page_older_than_its_events_is_not_believed_and_made_anew(folder):
    with SessionLog.create(folder) as session:
        for number in range(150):
            session.emit(MessageAction(content=str(number), source=Source.USER))
    page = folder / "event_cache" / "0-99.json"
    os.utime(page, (0, 0))
    file = folder / "events" / "000000007.json"
    whole = file.read_bytes()
    file.write_bytes(b"{")
    with pytest.raises(SessionError, match=r"000000007\.json is damaged"):
        SessionLog.open(folder)
    file.write_bytes(whole)
    SessionLog.open(folder).close()
    assert page.stat().st_mtime > file.stat().st_mtime


@in_every_store
def test_a_message_left_in_the_inbox_becomes_an_event_once(folder, kept_in):
    with SessionLog.create(folder) as session:
        put(folder, "and the docs", "queue")
        put(folder, "stop that", "steer")
        waiting = sorted((folder / "inbox").iterdir())
        assert deliver_queued(agent_of(), session, "steer")
        saved = waiting[0].read_bytes()
        assert deliver_queued(agent_of(), session, "queue")
        waiting[0].write_bytes(saved)
        assert not deliver_queued(agent_of(), session, "queue")
        assert [e.content for e in session.events] == ["stop that", "and the docs"]
    assert not list((folder / "inbox").iterdir())


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_that_others_can_write_to_is_not_believed(folder, mode):
    SessionLog.create(folder).close()
    folder.chmod(mode)
    for use in (SessionLog.open, read_session):
        with pytest.raises(SessionError, match="can be written by other users"):
            use(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_folder_of_somebody_else_is_refused(folder):
    SessionLog.create(folder).close()
    os.chown(folder, 1000, 1000)
    for use in (SessionLog.open, read_session):
        with pytest.raises(SessionError, match="belongs to user 1000"):
            use(folder)


def test_a_transition_that_is_not_in_the_table_is_refused(folder):
    with SessionLog.create(folder) as session, pytest.raises(ValueError, match="can't become"):
        session.change_state(AgentState.FINISHED)
    assert set(TRANSITIONS) == set(AgentState)


@given(st.lists(events, max_size=15), st.integers(0, 15))
def test_the_state_is_a_fold_wherever_it_is_cut(log, at):
    assert fold(log[at:], fold(log[:at])) == fold(log)


@settings(max_examples=50)
@given(log=histories())
def test_the_state_file_keeps_the_state(log, tmp_path_factory):
    path = tmp_path_factory.mktemp("state") / "state.pkl"
    state = fold(log)
    save_state(path, state)
    assert load_state(path) == state


HOSTILE = [
    b"",
    b"garbage",
    b"cos\nsystem\n(S'touch /tmp/never'\ntR.",
    pickle.dumps({"schema_version": 1, "agent_state": AgentState.IDLE}),
    pickle.dumps([1, 2, 3]),
]


@pytest.mark.parametrize("body", HOSTILE)
@pytest.mark.parametrize("signed", [True, False])
def test_a_hostile_state_file_is_ignored(tmp_path, body, signed):
    import hashlib

    path = tmp_path / "state.pkl"
    path.write_bytes((hashlib.sha256(body).digest() if signed else b"") + body)
    path.chmod(0o600)
    assert load_state(path) is None


def test_a_state_file_that_others_may_write_is_ignored(tmp_path):
    path = tmp_path / "state.pkl"
    save_state(path, State(session_id="x"))
    assert load_state(path) is not None
    path.chmod(0o666)
    assert load_state(path) is None


BAD_CALL = ErrorObservation(error_id="invalid_tool_call", cause=1)
BAD_REPLY = ErrorObservation(error_id="unusable_reply")


def test_bad_calls_are_counted_once_a_reply():
    state = State()
    for _ in range(3):
        state = apply(state, MessageAction(content="", reply=ReplyPart(id="r", index=0, total=1)))
        for _ in range(4):
            state = apply(state, BAD_CALL)
    assert state.bad_calls == 3


@pytest.mark.parametrize(
    ("event", "bad_calls", "bad_replies"),
    [
        (BAD_CALL, 3, 0),
        (BAD_REPLY, 2, 4),
        (ErrorObservation(error_id="timeout", cause=1), 0, 0),
        (CmdOutputObservation(cause=1), 0, 0),
        (CmdOutputObservation(), 2, 3),
        (MessageAction(content="go on", source=Source.USER), 0, 0),
        (MessageAction(content="[told]", source=Source.ENVIRONMENT), 2, 3),
    ],
)
def test_what_ends_a_row_of_faults(event, bad_calls, bad_replies):
    state = apply(State(bad_calls=2, bad_replies=3, iteration=5), event)
    assert (state.bad_calls, state.bad_replies) == (bad_calls, bad_replies)
