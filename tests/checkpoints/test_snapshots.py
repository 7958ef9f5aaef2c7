from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentcli.checkpoints import scan as snapshot_scan
from agentcli.checkpoints import take as snapshot_take
from agentcli.checkpoints.snapshots import Change, CheckpointError, Checkpoints
from tests.checkpoints.trees import NOBODY, as_nobody, contents, killed_at

FILE_MODES = (0o644, 0o755, 0o600, 0o400, 0o664, 0o777, 0o444)
FOLDER_MODES = (0o755, 0o700, 0o775, 0o555)
ODD_NAMES = (
    b"-rf",
    b"a b\nc",
    b"\xff\xfe",
    b"%x",
    b"%%left-out",
    b"%left-out",
    b".GIT",
    b"x" * 255,
)


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "src").mkdir()
    (folder / "src" / "main.py").write_text("print('hello')\n")
    (folder / "README").write_text("read me\n")
    return folder


@pytest.fixture
def checkpoints(workspace, tmp_path):
    return Checkpoints(workspace, tmp_path / "session" / "checkpoints")


def test_what_was_deleted_changed_and_added_is_as_it_was(workspace, checkpoints):
    before = contents(workspace)
    tree = checkpoints.take().tree
    shutil.rmtree(workspace / "src")
    (workspace / "README").write_text("wrong\n")
    (workspace / "new" / "deep").mkdir(parents=True)
    (workspace / "new" / "deep" / "file").write_text("")

    later = checkpoints.take().tree
    changes = checkpoints.restore(tree).changes

    assert contents(workspace) == before
    assert changes == [
        Change("README", "modified"),
        Change("new/deep/file", "deleted"),
        Change("src/main.py", "added"),
    ]
    assert checkpoints.take().tree == tree
    assert [c.path for c in checkpoints.restore(later).changes] == [c.path for c in changes]


def test_an_unchanged_workspace_keeps_its_tree(workspace, checkpoints):
    first = checkpoints.take().tree
    assert (checkpoints.take().tree, checkpoints.take().tree) == (first, first)


def test_only_named_paths_are_restored(workspace, checkpoints):
    tree = checkpoints.take().tree
    shutil.rmtree(workspace / "src")
    (workspace / "README").write_text("kept\n")
    assert checkpoints.restore(tree, ["src/main.py"]).changes == [Change("src/main.py", "added")]
    assert (workspace / "README").read_text() == "kept\n"
    assert (workspace / "src" / "main.py").read_text() == "print('hello')\n"


def test_the_workspace_itself_comes_back(workspace, checkpoints):
    before = contents(workspace)
    tree = checkpoints.take().tree
    shutil.rmtree(workspace)
    assert len(checkpoints.changes(tree, checkpoints.take().tree)) == 2
    checkpoints.restore(tree)
    assert contents(workspace) == before


def test_without_git_only_the_diff_is_missing(workspace, checkpoints, monkeypatch):
    monkeypatch.setattr(os, "defpath", "/nonexistent")
    monkeypatch.setenv("PATH", "bin:/nonexistent")
    old = checkpoints.take().tree
    (workspace / "README").unlink()
    new = checkpoints.take().tree
    checkpoints.restore(old)
    assert (workspace / "README").exists()
    with pytest.raises(CheckpointError, match="no git on PATH"):
        checkpoints.diff(old, new)


def test_a_change_within_the_same_tick_is_seen(workspace, checkpoints, monkeypatch):
    exact = snapshot_scan.time_text
    tick = 10_000_000
    monkeypatch.setattr(snapshot_scan, "time_text", lambda ns: exact(ns - ns % tick))
    trees = set()
    for n in range(100):
        (workspace / "README").write_text(f"{n:03}\n")
        trees.add(checkpoints.take().tree)
    assert len(trees) == 100


def test_a_diff_is_that_of_git(workspace, checkpoints):
    (workspace / "binary").write_bytes(b"\0\1")
    (workspace / "old.txt").write_text("a line\n" * 20)
    old = checkpoints.take().tree
    (workspace / "binary").write_bytes(b"\0\2")
    (workspace / "old.txt").rename(workspace / "new.txt")
    (workspace / "README").write_text("read it\n")
    (workspace / "src" / "main.py").chmod(0o755)
    new = checkpoints.take().tree
    diff = checkpoints.diff(old, new)
    assert "-read me\n+read it\n" in diff
    assert "rename from old.txt\nrename to new.txt\n" in diff
    assert "Binary files a/binary and b/binary differ\n" in diff
    assert "old mode 100644\nnew mode 100755\n" in diff
    assert checkpoints.diff(new, new) == ""


def test_a_mode_is_a_change_of_its_own(workspace, checkpoints):
    old = checkpoints.take().tree
    (workspace / "README").chmod(0o600)
    (workspace / "src").chmod(0o700)
    new = checkpoints.take().tree
    assert checkpoints.changes(old, new) == [Change("README", "mode"), Change("src", "mode")]
    checkpoints.restore(old)
    assert stat.S_IMODE((workspace / "README").stat().st_mode) == 0o644


def test_empty_folders_are_told_and_brought_back(workspace, checkpoints):
    (workspace / "empty").mkdir(mode=0o700)
    old = checkpoints.take().tree
    (workspace / "empty").rmdir()
    assert checkpoints.changes(old, checkpoints.take().tree) == [Change("empty", "deleted")]
    checkpoints.restore(old)
    assert stat.S_IMODE((workspace / "empty").stat().st_mode) == 0o700


def test_no_write_goes_through_a_symlink(workspace, checkpoints, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "main.py").write_text("theirs\n")
    tree = checkpoints.take().tree
    shutil.rmtree(workspace / "src")
    (workspace / "src").symlink_to(outside)
    (workspace / "README").unlink()
    (workspace / "README").symlink_to(outside / "main.py")
    checkpoints.restore(tree)
    assert not (workspace / "src").is_symlink()
    assert contents(outside) == {b"main.py": (stat.S_IFREG | 0o644, b"theirs\n")}


def test_a_folder_that_becomes_a_symlink_meanwhile_is_not_entered(
    workspace, checkpoints, tmp_path, monkeypatch
):
    outside = tmp_path / "outside"
    outside.mkdir()
    tree = checkpoints.take().tree
    (workspace / "src" / "main.py").unlink()
    original = checkpoints._objects.read

    def swap(oid):
        if (workspace / "src").is_dir() and not (workspace / "src").is_symlink():
            (workspace / "src").rename(workspace / "away")
            (workspace / "src").symlink_to(outside)
        return original(oid)

    checkpoints.take()
    blob = checkpoints._trees.find(bytes.fromhex(tree), b"src/main.py").oid
    monkeypatch.setattr(
        checkpoints._objects, "read", lambda oid: swap(oid) if oid == blob else original(oid)
    )
    with pytest.raises(CheckpointError, match=r"src/main\.py"):
        checkpoints.restore(tree)
    assert contents(outside) == {}
    monkeypatch.undo()
    checkpoints.restore(tree)
    assert (workspace / "src" / "main.py").read_text() == "print('hello')\n"
    assert not (workspace / "src").is_symlink()


def test_special_files_are_neither_opened_nor_removed(workspace, checkpoints):
    os.mkfifo(workspace / "pipe")
    tree = checkpoints.take().tree
    os.mkfifo(workspace / "src" / "later")
    (workspace / "README").unlink()
    checkpoints.restore(tree)
    assert (workspace / "pipe").is_fifo()
    assert (workspace / "src" / "later").is_fifo()


def test_hard_links_are_simply_files(workspace, checkpoints):
    os.link(workspace / "README", workspace / "copy")
    tree = checkpoints.take().tree
    (workspace / "copy").write_text("both\n")
    checkpoints.restore(tree)
    assert (workspace / "copy").read_text() == (workspace / "README").read_text() == "read me\n"


def test_setuid_is_not_brought_back(workspace, checkpoints):
    (workspace / "README").chmod(0o4755)
    tree = checkpoints.take().tree
    (workspace / "README").unlink()
    checkpoints.restore(tree)
    assert stat.S_IMODE((workspace / "README").stat().st_mode) == 0o755


def test_an_ordinary_user_restores_what_was_locked(tmp_path):
    top = Path(tempfile.mkdtemp(dir="/tmp"))
    if os.geteuid() == 0:
        os.chown(top, NOBODY, NOBODY)
    try:

        def act():
            work = top / "work"
            (work / "a" / "b").mkdir(parents=True)
            (work / "a" / "b" / "file").write_text("1")
            (work / "a" / "stays").mkdir()
            (work / "a" / "stays").chmod(0o555)
            before = contents(work)
            checkpoints = Checkpoints(work, top / "store")
            tree = checkpoints.take().tree
            (work / "a" / "b" / "file").write_text("2")
            (work / "a" / "b" / "more").write_text("2")
            (work / "a" / "b").chmod(0o000)
            (work / "a").chmod(0o500)
            assert checkpoints.take().left_out == ("a/b (can't be read)",)
            checkpoints.restore(tree)
            assert contents(work) == before

        assert as_nobody(act) == 0
    finally:
        subprocess.run(["chmod", "-R", "u+rwx", top], check=True)
        shutil.rmtree(top)


def test_a_damaged_store_is_named(workspace, checkpoints, tmp_path):
    tree = checkpoints.take().tree
    (workspace / "README").unlink()
    store = tmp_path / "session" / "checkpoints"
    for path in store.glob("objects/??/*"):
        path.chmod(0o600)
        path.write_bytes(b"")
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoints.restore(tree)


def test_what_is_no_checkpoint_is_refused(checkpoints):
    checkpoints.take()
    for tree in ("HEAD", "--output=x", "0" * 40):
        with pytest.raises(CheckpointError):
            checkpoints.changes(tree, "1" * 40)
        with pytest.raises(CheckpointError):
            checkpoints.restore(tree)


@pytest.mark.campaign
@pytest.mark.parametrize("warm", [False, True])
def test_a_killed_snapshot_leaves_a_usable_store(workspace, tmp_path, warm, monkeypatch):
    monkeypatch.setattr(snapshot_take, "_ONE_BY_ONE", 5)
    for n in range(12):
        (workspace / f"file{n}").write_text(f"{n}\n" * 9)
    store, step = tmp_path / "store", 0
    interrupted = True
    while interrupted:
        step += 1
        if not warm:
            shutil.rmtree(store, ignore_errors=True)
        (workspace / f"file{step % 12}").write_text(f"changed {step}\n")
        (workspace / f"new{step}").write_text("new\n")
        interrupted = killed_at(step, lambda: Checkpoints(workspace, store).take())
        (workspace / f"new{step}").unlink()
        checkpoints = Checkpoints(workspace, store)
        copy = tmp_path / f"copy{step}"
        checkpoints.write_out(checkpoints.take().tree, copy)
        assert contents(copy) == contents(workspace)
        shutil.rmtree(copy)
    assert step > 8


@pytest.mark.campaign
def test_a_killed_restore_is_finished_by_the_next(workspace, tmp_path):
    for n in range(5):
        (workspace / f"file{n}").write_text(f"{n}\n")
    store, step = tmp_path / "store", 1
    before = contents(workspace)
    tree = Checkpoints(workspace, store).take().tree
    interrupted = True
    while interrupted:
        shutil.rmtree(workspace / "src")
        for path in workspace.glob("file*"):
            path.write_text("wrong")
        Checkpoints(workspace, store).take()
        interrupted = killed_at(step, lambda: Checkpoints(workspace, store).restore(tree))
        Checkpoints(workspace, store).restore(tree)
        assert contents(workspace) == before
        step += 1
    assert step > 10


# --- any tree -----------------------------------------------------------------------------------

names = st.one_of(
    st.sampled_from(ODD_NAMES),
    st.sampled_from((b"a", b"b", b"c", b"a.b", b"a-b")),
    st.binary(min_size=1, max_size=8).filter(lambda n: n not in (b".", b"..", b".git")),
).map(lambda name: name.replace(b"/", b"_").replace(b"\0", b"_"))
files = st.tuples(st.sampled_from(FILE_MODES), st.binary(max_size=40))
links = st.sampled_from((b"a", b"../..", b"/nowhere", b"./x//y", b"\xff")).map(lambda t: (None, t))
trees = st.recursive(
    st.one_of(files, links),
    lambda inner: st.tuples(
        st.sampled_from(FOLDER_MODES), st.dictionaries(names, inner, max_size=4)
    ),
    max_leaves=12,
)
folders = st.dictionaries(names, trees, max_size=5)


def build(top: Path, entries) -> None:
    for name, (mode, content) in entries.items():
        path = top / os.fsdecode(name)
        remove(path)
        if mode is None:
            os.symlink(content, path)  # noqa: PTH211 (the target stays as it is written)
        elif isinstance(content, dict):
            path.mkdir()
            build(path, content)
            path.chmod(mode)
        else:
            path.write_bytes(content)
            path.chmod(mode)


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.mark.campaign
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(first=folders, then=folders, gone=st.sets(names, max_size=3))
def test_any_tree_comes_back_from_any_other(first, then, gone):
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "work"
        work.mkdir()
        checkpoints = Checkpoints(work, Path(scratch) / "store")

        build(work, first)
        before = contents(work)
        tree = checkpoints.take().tree
        for name in gone:
            remove(work / os.fsdecode(name))
        build(work, then)
        after = contents(work)
        later = checkpoints.take().tree
        touched = {os.fsencode(change.path) for change in checkpoints.changes(tree, later)}

        checkpoints.restore(tree)
        assert contents(work) == before
        assert Checkpoints(work, Path(scratch) / "store").take().tree == tree
        checkpoints.restore(later)
        assert contents(work) == after

        copy = Path(scratch) / "copy"
        assert checkpoints.write_out(tree, copy) == []
        assert contents(copy) == before
        differing = {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)}
        assert touched <= differing
        if tree == later:
            assert before == after
