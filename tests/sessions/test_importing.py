"""Imports: what is a session comes through whole, what is hostile leaves nothing behind."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from agentcli.errors import SessionError
from agentcli.events import (
    LLMMetrics,
    ReplyPart,
    Source,
    ToolCallMetadata,
    event_from_dict,
    event_to_dict,
)
from agentcli.events.actions import CmdRunAction, RenameAction, RewindAction
from agentcli.events.observations import (
    CheckpointObservation,
    CmdMetadata,
    CmdOutputObservation,
    DecisionObservation,
    NullObservation,
    SessionStartedObservation,
)
from agentcli.security.redact import MASK, Redactor
from agentcli.sessions import import_sources, transfer
from agentcli.sessions.export import Trajectory, exporter
from agentcli.sessions.finder import newest
from agentcli.sessions.session import SessionLog, read_session
from agentcli.sessions.staging import staging, sweep
from agentcli.sessions.transfer import import_session
from tests.conftest import in_every_store
from tests.sessions.test_export import exported, recorded
from tests.sessions.test_index import SECOND, record, said, started
from tests.strategies import histories

SECRET = "correct-horse-battery"


def taken_over(home: Path, path: Path, redact=lambda data: data):
    return read_session(import_session(home, path, redact).folder)


def message(event_id: int = 0, **fields) -> dict:
    common = {"id": event_id, "timestamp": "2026-01-01T00:00:00Z", "source": "user"}
    return {**common, "action": "message", "args": {"content": "hi"}, **fields}


def decision(**values: object) -> dict:
    extras = {"decision": "allow", "by": "user"}
    common = {"id": 0, "timestamp": "2026-01-01T00:00:00Z"}
    return {**common, "observation": "decision", "extras": extras, **values}


def session_folder(path: Path, *records) -> Path:
    (path / "events").mkdir(parents=True)
    for number, entry in enumerate(records):
        text = entry if isinstance(entry, str) else json.dumps(entry)
        (path / "events" / f"{number:09d}.json").write_text(text)
    return path


def nothing_left(home: Path) -> bool:
    return not list(home.glob("sessions/*")) and not list(home.glob("sessions.scrap/*"))


def refused(home: Path, path: Path) -> str:
    with pytest.raises(SessionError) as told:
        import_session(home, path, lambda data: data)
    assert nothing_left(home)
    return told.value.message


@pytest.mark.parametrize("form", ["folder", "json", "jsonl", "tar", "tar.gz", "zip"])
def test_a_session_comes_through_whole(tmp_path, form):
    run = CmdRunAction(command="ls")
    original = recorded(tmp_path / "there", *[said(f"number {n}") for n in range(120)], run)
    (original.folder / "outputs" / "1.log").write_text("in full")
    path = original.folder
    if form.startswith("json"):
        path = tmp_path / "exported"
        path.write_text(exported(original, form))
    elif form != "folder":
        kind = {"tar": "tar", "tar.gz": "gztar", "zip": "zip"}[form]
        path = Path(shutil.make_archive(str(tmp_path / "packed"), kind, path.parent))
    copy = taken_over(tmp_path / "here", path)
    assert copy.events[1:] == original.events[1:]
    assert copy.folder.name != original.folder.name
    outputs = [file.read_text() for file in (copy.folder / "outputs").iterdir()]
    assert outputs == ([] if form.startswith("json") else ["in full"])
    for file in [copy.folder, *copy.folder.rglob("*")]:
        assert file.stat().st_mode & 0o077 == 0, file
    assert copy.state.title == "number 0"
    assert copy.state.workspace == "elsewhere:/work"
    assert copy.state.local_workspace is None


def unplaced(event):
    if not isinstance(event, SessionStartedObservation):
        return event
    return event.model_copy(update={"workspace": f"elsewhere:{event.workspace}"})


@settings(max_examples=60)
@given(histories())
def test_any_history_survives_export_and_import(tmp_path_factory, history):
    home = tmp_path_factory.mktemp("home")
    events = [event for event in history if getattr(event, "decision", "") != "ask"]
    events = [event.model_copy(update={"id": number}) for number, event in enumerate(events)]
    header = {"format_version": 1}
    for form in ("json", "jsonl"):
        trajectory = Trajectory(header, [event_to_dict(event) for event in events])
        (home / form).write_text("".join(exporter(form)(trajectory)))
        assert taken_over(home, home / form).events == [unplaced(event) for event in events]


def test_only_events_and_outputs_are_taken_over(tmp_path):
    folder = session_folder(tmp_path / "there", message())
    for name in ("state.pkl", "session.lock", "log", "shell/rc", "checkpoints/x", "outputs/a.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("theirs")
    (folder / "outputs" / "link.txt").symlink_to("/etc/passwd")
    (folder / "outputs" / ".hidden").write_text("theirs")
    os.mkfifo(folder / "outputs" / "fifo")
    copy = import_session(tmp_path / "here", folder, lambda data: data).folder
    files = [file for file in copy.rglob("*") if not file.is_dir()]
    assert [file.name for file in files if file.read_bytes() == b"theirs"] == ["a.txt"]
    assert sorted(file.name for file in (copy / "outputs").iterdir()) == ["a.txt"]


def test_what_was_imported_last_is_not_what_was_used_last(tmp_path):
    mine = record(tmp_path, SECOND, said("mine"))
    theirs = record(tmp_path / "there", SECOND, said("theirs"))
    import_session(tmp_path, theirs, lambda data: data)
    assert newest(tmp_path, Path("/work")) == mine


def test_secrets_are_masked_again(tmp_path):
    folder = session_folder(tmp_path / "there", message(args={"content": f"key {SECRET}"}))
    (folder / "outputs").mkdir()
    (folder / "outputs" / "1.log").write_bytes(b"\xff" + SECRET.encode())
    copy = taken_over(tmp_path / "here", folder, Redactor([SECRET])).folder
    assert (copy / "outputs" / "1.log").read_bytes() == b"\xff" + MASK.encode()
    assert not any(SECRET in file.read_text() for file in (copy / "events").iterdir())


def test_what_it_allowed_or_prepared_has_no_force_here(tmp_path):
    call = ToolCallMetadata(function_name="bash", tool_call_id="c", raw_arguments="{}")
    part = ReplyPart(id="r", index=0, total=1)
    loaded = CmdMetadata(exit_code=0, exports={"LD_PRELOAD": "/tmp/evil.so"})
    original = recorded(
        tmp_path / "there",
        said("go"),
        DecisionObservation(decision="allow", by="user", grant="all commands"),
        CheckpointObservation(tree="--upload-pack=evil"),
        RewindAction(to_event=2, tree="--evil", source=Source.USER),
        CmdOutputObservation(content="x", metadata=loaded),
        CmdRunAction(command="touch /tmp/evil", tool_call_metadata=call, reply=part),
        DecisionObservation(decision="ask", by="policy", cause=6),
    )
    assert original.state.grants
    imported = import_session(tmp_path / "here", original.folder, lambda data: data)
    assert any("permissions" in note for note in imported.notes)
    events = read_session(imported.folder).events
    assert len(events) == len(original.events)
    assert events[2].grant is None
    assert isinstance(events[3], NullObservation)
    assert events[4].tree is None
    assert events[5].metadata.exports == {}
    assert isinstance(events[7], NullObservation)
    with SessionLog.open(imported.folder) as session:
        assert session.state.grants == ()
        assert session.pending_actions() == []


def test_a_grant_can_not_hide_in_an_event_of_a_newer_version(tmp_path):
    newer = {
        "id": 0,
        "timestamp": "2026-01-01T00:00:00Z",
        "observation": "decision",
        "extras": {"decision": "allow", "by": "user", "grant": "all", "new": 1},
        "schema_version": 99,
    }
    copy = taken_over(tmp_path / "here", session_folder(tmp_path / "there", newer))
    assert "grant" not in copy.events[0].raw["extras"]
    assert copy.events[0].raw["extras"]["new"] == 1


@in_every_store
def test_a_name_that_is_taken_is_not_taken_away(tmp_path, kept_in):
    here = tmp_path / "here"
    record(here, SECOND, RenameAction(name="mine", source=Source.USER))
    named = started("x", "/work").model_copy(update={"name": "mine"})
    records = [
        event_to_dict(named) | {"id": 0, "timestamp": "2026-01-01T00:00:00Z"},
        message(1, action="rename", args={"name": "mine"}),
        message(2, action="rename", args={"name": "2026"}),
        message(3, action="rename", args={"name": "theirs"}),
    ]
    imported = import_session(here, session_folder(tmp_path / "there", *records), lambda d: d)
    names = [getattr(event, "name", None) for event in read_session(imported.folder).events]
    assert names == [None, None, None, "theirs"]
    assert SECOND in imported.notes[0]


HOSTILE_EVENTS = {
    "no object": "[]",
    "no JSON": "{",
    "not UTF-16 either": "\ufffe",
    "another id": message(5),
    "an id among the arguments": message(args={"content": "x", "id": 7}),
    "a true id": json.dumps(message()).replace('"id": 0', '"id": false'),
    "no id": {"action": "message", "timestamp": "2026-01-01T00:00:00Z"},
    "nested too deeply": '{"id":0,"args":' + "[" * 100_000,
    "nested deeply": message(args={"content": "x", "more": json.loads("[" * 200 + "]" * 200)}),
    "a huge number": '{"id":0,"timestamp":1,"action":"new","args":{"n":' + "9" * 400 + "}}",
    "digits without end": '{"id":0,"timestamp":1,"action":"new","args":{"n":' + "9" * 9999 + "}}",
    "infinity": '{"id":0,"timestamp":1,"action":"new","args":{"n":1e999}}',
    "not a number": '{"id":0,"timestamp":1,"action":"new","args":{"n":NaN}}',
    "an unknown field": message(args={"content": "x", "evil": 1}),
    "a list for arguments": message(args=[1]),
    "a list for a kind": message(action=[]),
    "a word for a version": message(schema_version="new"),
    "no time": message(timestamp="soon"),
    "a time without a zone": message(timestamp="2026-01-01T00:00:00"),
    "both kinds": message(observation="run"),
    "a grant beside the extras": decision(grant="bash(*)"),
    "a question among arguments": decision(args={"decision": "ask"}),
    "files among extras": message(extras={"file_urls": ["/etc/passwd"]}),
    "a cost below nothing": message(
        llm_metrics=LLMMetrics(model="m", cost_usd=-5.0).model_dump(mode="json")
    ),
}


@pytest.mark.parametrize("hostile", HOSTILE_EVENTS.values(), ids=HOSTILE_EVENTS.keys())
def test_an_event_that_is_none_is_named(tmp_path, hostile):
    folder = session_folder(tmp_path / "there", hostile)
    assert "event 0" in refused(tmp_path / "here", folder)


def test_lone_surrogates_are_replaced(tmp_path):
    folder = session_folder(tmp_path / "there", message(args={"content": "a\ud800b"}))
    copy = taken_over(tmp_path / "here", folder)
    assert copy.events[0].content == "a\ufffdb"


@pytest.mark.parametrize("kind", ["link", "fifo", "folder", "hole", "none", "events is a link"])
def test_a_folder_with_other_things_in_it_is_refused(tmp_path, kind):
    folder = session_folder(tmp_path / "there", message(), message(1), message(2))
    path = folder / "events" / "000000001.json"
    outside = path.rename(tmp_path / "outside.json")
    match kind:
        case "link":
            path.symlink_to(outside)
        case "fifo":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "none":
            shutil.rmtree(folder / "events")
            (folder / "events").mkdir()
        case "events is a link":
            outside.rename(path)
            (folder / "events").rename(tmp_path / "moved")
            (folder / "events").symlink_to(tmp_path / "moved")
    refused(tmp_path / "here", folder)


@pytest.mark.parametrize(
    "content", ["", "text", "[]", '{"format_version": 1}', '{"a": 1}', "[" * 9**5]
)
def test_a_file_that_is_no_export_is_refused(tmp_path, content):
    (tmp_path / "file").write_text(content)
    refused(tmp_path / "here", tmp_path / "file")


def test_a_fifo_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert "plain file" in refused(tmp_path / "here", tmp_path / "fifo")
    assert "No such file" in refused(tmp_path / "here", tmp_path / "absent")


def packed(path: Path, members: list[tuple[str, bytes, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, kind, data in members:
            info = tarfile.TarInfo(name)
            info.type = kind
            info.size = len(data) if kind == tarfile.REGTYPE else 0
            info.linkname = "/etc/passwd"
            archive.addfile(info, io.BytesIO(data))
    return path


EVENT = json.dumps(message()).encode()


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("../../events/000000001.json", tarfile.REGTYPE),
        ("/tmp/escaped", tarfile.REGTYPE),
        ("s/../../escaped", tarfile.REGTYPE),
        ("s/events/000000001.json", tarfile.SYMTYPE),
        ("s/events/000000001.json", tarfile.LNKTYPE),
        ("s/events/000000001.json", tarfile.FIFOTYPE),
        ("s/events/000000001.json", tarfile.CHRTYPE),
        ("s/events/000000000.json", tarfile.REGTYPE),
        ("other/events/000000001.json", tarfile.REGTYPE),
    ],
)
def test_a_tar_that_wants_out_or_is_no_session_is_refused(tmp_path, name, kind):
    members = [("s/events/000000000.json", tarfile.REGTYPE, EVENT), (name, kind, EVENT)]
    refused(tmp_path / "here", packed(tmp_path / "packed", members))


def test_a_zip_that_wants_out_or_is_cut_off_is_refused(tmp_path):
    path = tmp_path / "packed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("s/events/000000000.json", EVENT)
        archive.writestr("../escaped", EVENT)
    assert "leads out" in refused(tmp_path / "here", path)
    path.write_bytes(path.read_bytes()[:-30])
    assert "damaged" in refused(tmp_path / "here", path)


def test_sizes_have_limits(tmp_path, monkeypatch):
    for module in (import_sources, transfer, import_sources):
        monkeypatch.setattr(module, "EVENT_BYTES", 1000)
    folder = session_folder(tmp_path / "there", message(args={"content": "x" * 1000}))
    assert "larger" in refused(tmp_path / "here", folder)
    monkeypatch.setattr(transfer, "TOTAL_BYTES", 1500)
    folder = session_folder(tmp_path / "many", *[message(n) for n in range(20)])
    assert "more than" in refused(tmp_path / "here", folder)
    monkeypatch.setattr(import_sources, "AT_ONCE_BYTES", 2000)
    bomb = packed(tmp_path / "bomb", [("padding", tarfile.REGTYPE, bytes(10**6))])
    assert "more than" in refused(tmp_path / "here", bomb)
    monkeypatch.setattr(import_sources, "MOST_EVENTS", 5)
    assert "more than" in refused(tmp_path / "here", folder)


@in_every_store
def test_what_a_killed_import_leaves_is_swept_up(tmp_path, kept_in):
    left = tmp_path / "sessions.scrap" / "20260101-000000-abcd-0123abcd"
    session_folder(left, message())
    foreign = tmp_path / "sessions.scrap" / "notes"
    foreign.mkdir()
    assert sweep(tmp_path, pytest.fail) == []
    assert not left.exists()
    assert foreign.exists()


def test_an_import_that_is_going_on_is_not(tmp_path):
    with staging(tmp_path, SECOND) as staged:
        session_folder(staged / "sub", message())
        assert sweep(tmp_path, pytest.fail) == []
        assert staged.exists()
    assert (tmp_path / "sessions" / SECOND / "sub").exists()


def test_events_of_unknown_kinds_are_kept_as_they_are(tmp_path):
    unknown = message(action="dream", args={"of": ["sheep", 1, None]}, extra=True)
    copy = taken_over(tmp_path / "here", session_folder(tmp_path / "there", unknown))
    assert copy.events == [event_from_dict(unknown)]
    assert event_to_dict(copy.events[0]) == unknown
