from __future__ import annotations

import os
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.errors import ToolError
from agentcli.events import event_from_dict, event_to_dict
from agentcli.events.observations import (
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)
from agentcli.workspace.names import display_path, parse_path
from agentcli.workspace.private import replace_atomically
from agentcli.workspace.scope import AccessScope
from agentcli.workspace.text import TextFile, digest, text_file
from agentcli.workspace.tracking import FileTracker, undo_text

# --- text ---------------------------------------------------------------------------------------

LINES = st.lists(st.text("abé \t'\u2028\f", max_size=8), max_size=8)
ENDINGS = st.sampled_from(["\n", "\r\n", "\r", "\r\r\n"])
ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])
read_text = FileTracker(Path("/")).read_text


def write_text(path: Path, text: str, like: TextFile | None = None) -> str:
    return FileTracker(Path("/")).write(path, text, like).digest


@given(lines=LINES, ending=ENDINGS, encoding=ENCODINGS, final=st.booleans())
def test_what_is_read_and_written_back_is_the_same_bytes(
    tmp_path_factory, lines, ending, encoding, final
):
    path = tmp_path_factory.mktemp("round") / "a.txt"
    data = (ending.join(lines) + ending * final).encode(encoding)
    path.write_bytes(data)
    file = read_text(path)
    assert write_text(path, file.text, file) == digest(data) == file.digest
    assert path.read_bytes() == data


@given(st.binary(max_size=60))
def test_any_bytes_that_count_as_text_come_back_as_they_were(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bytes") / "a"
    path.write_bytes(data)
    if text_file(data) is None:
        with pytest.raises(ToolError, match="binary"):
            read_text(path)
    else:
        file = read_text(path)
        write_text(path, file.text, file)
    assert path.read_bytes() == data


@given(
    lines=st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["\n", "\r\n"])), min_size=1),
    at=st.integers(0, 99),
)
def test_a_changed_line_leaves_the_endings_of_the_others_alone(tmp_path_factory, lines, at):
    path = tmp_path_factory.mktemp("mixed") / "a.txt"
    at %= len(lines)
    path.write_bytes("".join(text + ending for text, ending in lines).encode())
    file = read_text(path)
    changed = file.text.split("\n")
    changed[at] = "changed"
    write_text(path, "\n".join(changed), file)
    after = path.read_bytes().splitlines(keepends=True)
    for i, (text, ending) in enumerate(lines):
        assert i == at or after[i] == (text + ending).encode()


def test_new_lines_take_the_line_ending_that_the_file_mostly_has(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"a\r\nb\r\nc\n")
    file = read_text(path)
    assert file.text == "a\nb\nc\n"
    write_text(path, "a\nnew\nb\nc\n", file)
    assert path.read_bytes() == b"a\r\nnew\r\nb\r\nc\n"


def test_a_new_file_gets_its_text_as_given(tmp_path):
    write_text(tmp_path / "run.bat", "@echo\r\n")
    assert (tmp_path / "run.bat").read_bytes() == b"@echo\r\n"


def test_cp1252_stays_and_what_it_can_not_hold_is_refused(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"caf\xe9\n")
    file = read_text(path)
    assert (file.text, file.encoding, file.guessed) == ("café\n", "cp1252", False)
    with pytest.raises(ToolError, match=r"cp1252, which has no 日 .*encoding='utf-8'"):
        write_text(path, "日\n", file)
    assert path.read_bytes() == b"caf\xe9\n"


def test_text_that_is_no_unicode_is_refused(tmp_path):
    with pytest.raises(ToolError):
        write_text(tmp_path / "a", "\ud800")
    assert list(tmp_path.iterdir()) == []


# --- writing ------------------------------------------------------------------------------------


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path):
    (tmp_path / ".scan.new").write_text("half")
    replace_atomically(tmp_path / "scan", b"whole")
    assert {each.name: each.read_text() for each in tmp_path.iterdir()} == {"scan": "whole"}


def test_the_mode_of_a_replaced_file_stays(tmp_path):
    path = tmp_path / "run.sh"
    path.write_text("old")
    path.chmod(0o750)
    write_text(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o750


def test_a_symlink_stays_and_its_target_is_written(tmp_path):
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


def test_the_other_names_of_a_hard_linked_file_keep_their_content(tmp_path):
    (tmp_path / "outside").write_text("old")
    (tmp_path / "inside").hardlink_to(tmp_path / "outside")
    write_text(tmp_path / "inside", "new")
    assert (tmp_path / "outside").read_text() == "old"


def test_folders_are_made_and_nothing_else_is_left_behind(tmp_path):
    write_text(tmp_path / "a/b/c.txt", "text")
    assert [path.name for path in tmp_path.rglob("*")] == ["a", "b", "c.txt"]


def test_special_files_are_neither_read_nor_replaced(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        for path, kind in [
            (tmp_path / "fifo", "FIFO"),
            (tmp_path / "socket", "socket"),
            (Path("/dev/null"), "device"),
            (tmp_path, "folder"),
        ]:
            with pytest.raises(ToolError, match=kind):
                read_text(path)
            with pytest.raises(ToolError, match=kind):
                write_text(path, "text")


def test_big_files_are_refused_with_a_way_to_see_them(tmp_path):
    with open(tmp_path / "big", "wb") as file:
        file.truncate(11_000_000)
    with pytest.raises(ToolError, match=r"11\.0 MB.*use bash"):
        read_text(tmp_path / "big")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_what_may_not_be_written_is_said(tmp_path):
    (tmp_path / "a").write_text("old")
    (tmp_path / "a").chmod(0o444)
    with pytest.raises(ToolError, match="read-only"):
        write_text(tmp_path / "a", "new")
    tmp_path.chmod(0o555)
    with pytest.raises(ToolError, match="Permission denied"):
        write_text(tmp_path / "b", "new")


# --- names --------------------------------------------------------------------------------------


def test_names_that_can_not_be_shown_are_quoted_as_bash_does(tmp_path):
    assert display_path(os.fsdecode(b"caf\xe9.txt")) == r"$'caf\xe9.txt'"
    assert display_path("a\nb\x1b[2J") == r"$'a\nb\e[2J'"
    assert display_path("\u202etxt.exe") == r"$'\xe2\x80\xaetxt.exe'"
    assert display_path("two words é") == "two words é"


@given(st.binary(min_size=1, max_size=12).filter(lambda name: b"\0" not in name))
def test_any_name_can_be_given_back(name):
    path = os.fsdecode(name)
    assert parse_path(display_path(path)) in (path, os.path.join(".", path))  # noqa: PTH118


@given(st.binary(min_size=1, max_size=12).filter(lambda name: b"\0" not in name))
def test_bash_understands_quoted_names(name):
    shown = display_path("\n" + os.fsdecode(name))
    result = subprocess.run(["bash", "-c", f"printf %s {shown}"], capture_output=True, check=True)
    assert result.stdout == b"\n" + name


def test_names_are_relative_inside_the_workspace(tmp_path):
    assert display_path(tmp_path / "src/a.py", tmp_path) == "src/a.py"
    assert display_path(tmp_path, tmp_path) == "."
    assert display_path(Path("/etc/hosts"), tmp_path) == "/etc/hosts"


def test_names_that_no_file_can_have(tmp_path):
    for name in ["a\0b", "\ud800", "", r"$'\0'"]:
        with pytest.raises(ToolError, match="can't be the name"):
            FileTracker(tmp_path).locate(name)


def test_home_and_quoted_names_are_located(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    files = FileTracker(tmp_path)
    assert files.locate("~/notes") == Path("/home/me/notes")
    assert files.locate(files.show(tmp_path / "~")) == tmp_path / "~"
    assert files.locate(r"$'a\tb'") == tmp_path / "a\tb"


def test_the_folder_that_commands_see_as_tmp_is_found_where_it_is(tmp_path):
    mounts = {Path("/tmp"): tmp_path / "private"}
    scope = AccessScope(tmp_path / "work", tmp_path, writable=(tmp_path / "work",), mounts=mounts)
    files = FileTracker(tmp_path / "work", scope)
    assert files.locate("/tmp/a") == tmp_path / "private/a"
    assert files.show(tmp_path / "private/a") == "/tmp/a"


# --- what was seen --------------------------------------------------------------------------------


def test_a_file_must_be_read_and_unchanged_to_be_changed(tmp_path):
    files, path = FileTracker(tmp_path), tmp_path / "a"
    path.write_text("one")
    with pytest.raises(ToolError, match="a was not read in this session"):
        files.check(path)
    files.seen(path, digest(b"one"))
    files.check(path)
    path.write_text("two")
    with pytest.raises(ToolError, match="changed on disk"):
        files.check(path)


def test_a_file_is_the_same_under_all_its_names(tmp_path):
    files = FileTracker(tmp_path)
    (tmp_path / "a").write_text("one")
    (tmp_path / "link").symlink_to("a")
    files.seen(tmp_path / "link", digest(b"one"))
    files.check(tmp_path / "a")


def test_what_was_seen_is_learnt_again_from_recorded_events(tmp_path):
    (tmp_path / "a").write_text("three")
    files = FileTracker(tmp_path)
    for number, event in enumerate(
        [
            FileReadObservation(path="a", digest=digest(b"one")),
            FileEditObservation(path="a", digest=digest(b"two"), old_content="one"),
            FileEditObservation(path="a", digest=digest(b"three"), old_content="two"),
            FileReadObservation(path="b", digest=""),
            FileWriteObservation(path="c", digest=digest(b"c")),
        ]
    ):
        stored = event_to_dict(event.model_copy(update={"id": number}))
        files.observe(event_from_dict(stored))
    files.check(tmp_path / "a")
    last = files.last_edit(tmp_path / "a")
    assert last is not None
    assert undo_text(tmp_path / "a", last, read_text(tmp_path / "a"))[0] == "two"
    assert files.last_edit(tmp_path / "b") is None


def test_a_recorded_undo_takes_an_edit_off_the_list(tmp_path):
    files, path = FileTracker(tmp_path), tmp_path / "a"
    files.observe(FileReadObservation(path="a", digest=digest(b"one")))
    files.observe(FileEditObservation(path="a", digest=digest(b"two"), old_content="one"))
    files.observe(FileEditObservation(path="a", digest=digest(b"one")))
    assert files.last_edit(path) is None
