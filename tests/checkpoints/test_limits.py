from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

import pytest

from agentcli.checkpoints import read_files as snapshot_read
from agentcli.checkpoints import scan as snapshot_limits
from agentcli.checkpoints import scan as snapshot_scan
from agentcli.checkpoints import take as snapshot_take
from agentcli.checkpoints.scan import scan
from agentcli.checkpoints.snapshots import CheckpointError, Checkpoints
from tests.checkpoints.trees import as_nobody, contents
from tests.conftest import git

FILES = 40


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    monkeypatch.setattr(snapshot_limits, "IGNORED_FILES", FILES)
    monkeypatch.setattr(snapshot_take, "_GROWN_FILES", 10)
    monkeypatch.setattr(snapshot_read, "LARGEST_COVERED", 10_000)


@pytest.fixture
def work(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "kept").write_text("kept\n")
    return folder


@pytest.fixture
def store(tmp_path):
    return tmp_path / "session" / "checkpoints"


def fill(folder, count=FILES + 5):
    folder.mkdir(parents=True)
    for n in range(count):
        (folder / f"file{n}").write_text(str(n))


def test_a_large_ignored_folder_is_left_out_and_told_once(work, store):
    git(work, "init", "-q")
    (work / ".gitignore").write_text("/out*/\n")
    fill(work / "out[1]" / "deep")
    fill(work / "outside", count=5)
    fill(work / "sources")
    checkpoints = Checkpoints(work, store)
    first = checkpoints.take()
    assert first.left_out == ("out[1] (45 files, ignored by git)",)
    assert checkpoints.take().left_out == ()
    assert Checkpoints(work, store).take().left_out == ()
    (work / "out[1]" / "deep" / "file1").write_text("built again")
    shutil.rmtree(work / "outside")
    shutil.rmtree(work / "sources")
    checkpoints.restore(first.tree)
    assert (work / "out[1]" / "deep" / "file1").read_text() == "built again"
    assert len(list((work / "outside").iterdir())) == 5
    assert len(list((work / "sources").iterdir())) == FILES + 5


def test_the_repository_s_own_list_of_ignored_names_counts(work, store):
    git(work, "init", "-q")
    (work / ".git" / "info" / "exclude").write_text("gen\n")
    fill(work / ":gen" / "gen")
    assert Checkpoints(work, store).take().left_out == (":gen/gen (45 files, ignored by git)",)


def test_without_git_folders_that_tools_fill_are_left_out(work, store):
    fill(work / "web" / "node_modules" / "a")
    fill(work / "target", count=5)
    fill(work / "data")
    checkpoints = Checkpoints(work, store)
    first = checkpoints.take()
    assert first.left_out == ("web/node_modules (45 files, can be made again)",)
    notes = checkpoints.write_out(first.tree, work.parent / "copy")
    assert notes == ["web/node_modules is not in the copy"]
    assert sorted(path.name for path in (work.parent / "copy").iterdir()) == [
        "data",
        "kept",
        "target",
        "web",
    ]


def test_a_folder_that_becomes_large_stays_when_an_older_state_comes_back(work, store):
    checkpoints = Checkpoints(work, store)
    old = checkpoints.take().tree
    fill(work / "node_modules")
    new = checkpoints.take()
    assert new.left_out == ("node_modules (45 files, can be made again)",)
    assert checkpoints.changes(old, new.tree) == []
    checkpoints.restore(old)
    assert len(list((work / "node_modules").iterdir())) == FILES + 5


def test_a_left_out_folder_that_is_made_anew_is_looked_at_anew(work, store):
    fill(work / "node_modules")
    checkpoints = Checkpoints(work, store)
    checkpoints.take()
    shutil.rmtree(work / "node_modules")
    checkpoints.take()
    fill(work / "node_modules", count=3)
    before = contents(work)
    tree = checkpoints.take().tree
    shutil.rmtree(work / "node_modules")
    checkpoints.restore(tree)
    assert contents(work) == before


def test_touched_files_are_in_it_wherever_they_are(work, store):
    fill(work / "node_modules" / "a")
    checkpoints = Checkpoints(work, store)
    touched = work / "node_modules" / "a" / "file1"
    new = Path("node_modules/a/new")
    tree = checkpoints.take([touched, new, work.parent / "outside", Path("/etc/passwd")]).tree
    touched.write_text("patched")
    (work / new).write_text("made by a tool")
    (work / "node_modules" / "a" / "file2").write_text("not touched")
    later = checkpoints.take().tree
    kinds = {change.path: change.kind for change in checkpoints.changes(tree, later)}
    assert kinds == {"node_modules/a/file1": "modified", "node_modules/a/new": "added"}

    Checkpoints(work, store).restore(tree)
    assert touched.read_text() == "1"
    assert not (work / new).exists()
    assert (work / "node_modules" / "a" / "file2").read_text() == "not touched"


def test_what_lay_there_before_it_was_touched_stays(work, store):
    fill(work / "node_modules")
    checkpoints = Checkpoints(work, store)
    old = checkpoints.take().tree
    checkpoints.take([work / "node_modules" / "file1"])
    checkpoints.restore(old)
    assert (work / "node_modules" / "file1").read_text() == "1"


def test_large_files_are_left_out_by_name(work, store):
    (work / "big.bin").write_bytes(b"x" * 12_000)
    checkpoints = Checkpoints(work, store)
    first = checkpoints.take()
    assert first.left_out == ("big.bin (12.0 kB)",)
    (work / "big.bin").write_bytes(b"y" * 13_000)
    checkpoints.restore(first.tree)
    assert (work / "big.bin").read_bytes() == b"y" * 13_000
    (work / "big.bin").write_bytes(b"small")
    small = checkpoints.take().tree
    (work / "big.bin").unlink()
    checkpoints.restore(small)
    assert (work / "big.bin").read_bytes() == b"small"


def test_a_file_that_grew_too_large_gets_its_old_content_back(work, store):
    checkpoints = Checkpoints(work, store)
    tree = checkpoints.take().tree
    (work / "kept").write_bytes(b"x" * 12_000)
    assert checkpoints.take().left_out == ("kept (12.0 kB)",)
    checkpoints.restore(tree)
    assert (work / "kept").read_text() == "kept\n"


def test_what_a_user_can_t_read_is_left_out_by_name(tmp_path):
    top = tmp_path / "work"
    top.mkdir()
    (top / "secret").write_text("x")
    fill(top / "locked", count=2)
    (top / "secret").chmod(0o000)
    (top / "locked").chmod(0o000)
    for path in (*tmp_path.parents, tmp_path):
        if path.stat().st_uid == os.geteuid() and path != Path("/"):
            path.chmod(path.stat().st_mode | 0o055)
    state = tmp_path / "state"
    state.mkdir()
    state.chmod(0o777)

    def act():
        checkpoints = Checkpoints(top, state / "store")
        first = checkpoints.take()
        assert first.left_out == ("locked (can't be read)", "secret (can't be read)"), first
        checkpoints.restore(first.tree)

    assert as_nobody(act) == 0
    assert (top / "secret").read_text() == "x" or os.geteuid() != 0


def test_a_store_within_the_workspace_is_no_part_of_it(work):
    checkpoints = Checkpoints(work, work / "state" / "session" / "checkpoints")
    tree = checkpoints.take().tree
    record = work / "state" / "session" / "events"
    record.write_text("one event\n")
    assert checkpoints.take().tree == tree
    checkpoints.restore(tree)
    assert record.read_text() == "one event\n"


@pytest.mark.parametrize("place", ["/", "~"])
def test_what_is_no_project_has_no_checkpoints(store, place, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(CheckpointError, match="not a project"):
        Checkpoints(Path(place).expanduser(), store).take()
    assert not store.exists()


def test_too_many_files_are_refused_unless_they_can_be_made_again(work, store, monkeypatch):
    monkeypatch.setattr(snapshot_scan, "MOST_FILES", 100)
    monkeypatch.setattr(snapshot_scan, "_ALONE", 10)
    fill(work / "a" / "node_modules", count=110)
    assert Checkpoints(work, store).take().left_out == ("a/node_modules (can be made again)",)
    fill(work / "b" / "sources", count=110)
    with pytest.raises(CheckpointError, match="more than 100 files"):
        Checkpoints(work, store).take()


# --- scanning -----------------------------------------------------------------------------------


def odd_tree(work):
    for n in range(12):
        folder = work / f"folder{n}" / "x\ny"
        folder.mkdir(parents=True)
        (folder / "-name").write_text("x" * n)
        (folder / "link").symlink_to("nowhere")
        os.utime(folder / "-name", ns=(n, 1_700_000_000_000_000_000 + n))
        (folder / "-name").chmod(0o4750)
    os.mkfifo(work / "folder1" / "pipe")
    (work / "folder2" / os.fsdecode(b"\xff")).write_text("")
    (work / "folder3" / "left*out").mkdir()
    (work / "folder3" / "leftXout").mkdir()
    (work / "folder4" / ".git" / "objects" / "aa").mkdir(parents=True)


def records(work: Path, pruned: Collection[bytes]) -> set[bytes]:
    return set(scan(work, pruned).raw.split(b"\0"))


def test_find_and_python_see_the_same(work, monkeypatch):
    odd_tree(work)
    by_python = records(work, {b"folder3/left*out"})
    monkeypatch.setattr(snapshot_scan, "_ALONE", 3)
    by_find = records(work, {b"folder3/left*out"})
    assert by_find == by_python
    assert b"d 755 ./folder3/leftXout" in by_find
    assert b"d 755 ./folder3/left*out" not in by_find
    assert not any(b"objects" in record for record in by_find)


def test_without_a_usable_find_python_does_it(work, monkeypatch, tmp_path):
    odd_tree(work)
    expected = records(work, ())
    monkeypatch.setattr(snapshot_scan, "_ALONE", 3)
    (tmp_path / "bin").mkdir()
    for content in (None, "#!/bin/sh\necho usage: find >&2; exit 1\n"):
        if content is not None:
            (tmp_path / "bin" / "find").write_text(content)
            (tmp_path / "bin" / "find").chmod(0o755)
        monkeypatch.setattr(snapshot_scan, "_FINDS", (str(tmp_path / "bin/find"),))
        assert records(work, ()) == expected


def test_a_second_process_reads_no_file_again(work, store, monkeypatch):
    monkeypatch.setattr(snapshot_scan, "UNCERTAIN_NS", -(10**12))
    first = Checkpoints(work, store).take().tree
    monkeypatch.setattr(snapshot_read.Reader, "_file", lambda *_: pytest.fail("a file was read"))
    monkeypatch.setattr(subprocess, "Popen", lambda *_: pytest.fail("a process was started"))
    assert Checkpoints(work, store).take().tree == first


@pytest.mark.parametrize("damage", [b"", b"{}\n", b"agent workspace scan 1 00000000\n{}\n"])
def test_a_damaged_cache_costs_only_time(work, store, damage):
    tree = Checkpoints(work, store).take().tree
    (store / "scan").write_bytes(damage)
    assert Checkpoints(work, store).take().tree == tree


def test_a_lost_tree_costs_only_time(work, store):
    tree = Checkpoints(work, store).take().tree
    shutil.rmtree(store / "objects")
    (work / "kept").write_text("changed\n")
    later = Checkpoints(work, store).take().tree
    (work / "kept").unlink()
    Checkpoints(work, store).restore(later)
    assert (work / "kept").read_text() == "changed\n"
    assert later != tree


def test_a_store_that_can_t_be_written_is_named(work, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="can't take a checkpoint: Not a directory"):
        Checkpoints(work, tmp_path / "file" / "store").take()
