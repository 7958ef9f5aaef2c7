from __future__ import annotations

import os
import shutil
import stat
import subprocess

import pytest

from agentcli.checkpoints import pack_store
from agentcli.checkpoints.restore import Restorer
from agentcli.checkpoints.snapshots import Change, CheckpointError, Checkpoints
from tests.checkpoints.trees import contents
from tests.conftest import git


@pytest.fixture
def work(tmp_path):
    """A repository with staged, unstaged, untracked, ignored and stashed changes."""
    folder = tmp_path / "work"
    (folder / "src").mkdir(parents=True)
    for name in ("one", "two", "three"):
        (folder / "src" / name).write_text(f"{name}\n")
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "start")
    (folder / "src" / "three").write_text("stashed\n")
    git(folder, "stash", "-q")
    (folder / "src" / "one").write_text("staged\n")
    git(folder, "add", "src/one")
    (folder / "src" / "one").write_text("and changed\n")
    (folder / "src" / "two").unlink()
    (folder / "untracked").write_text("untracked\n")
    (folder / "a.log").write_text("ignored\n")
    (folder / "build").mkdir()
    (folder / "build" / "out").write_text("ignored too\n")
    return folder


@pytest.fixture
def checkpoints(work, tmp_path):
    return Checkpoints(work, tmp_path / "store")


def looks(work):
    questions = (["status", "--porcelain=v2"], ["diff", "--cached"], ["diff"], ["stash", "list"])
    return [git(work, "--no-optional-locks", *question) for question in questions]


def without_objects(found):
    return {path: entry for path, entry in found.items() if b"/objects" not in path}


def test_the_state_of_git_is_not_touched(work, checkpoints):
    looked, repository = looks(work), contents(work / ".git")
    before = contents(work)
    tree = checkpoints.take().tree
    for name in ("src", "build"):
        shutil.rmtree(work / name)
    for name in ("untracked", "a.log", ".gitignore"):
        (work / name).unlink()

    checkpoints.take()
    checkpoints.restore(tree)

    assert contents(work) == before
    assert contents(work / ".git") == repository
    assert looks(work) == looked


def test_a_repository_stays_as_it_is_where_only_files_are_asked_for(work, checkpoints):
    tree = checkpoints.take().tree
    git(work, "commit", "-qam", "later")
    (work / "src" / "one").write_text("wrong\n")
    head, repository = git(work, "rev-parse", "HEAD"), contents(work / ".git")
    assert checkpoints.restore(tree, ["src/one"]).changes == [Change("src/one", "modified")]
    assert git(work, "rev-parse", "HEAD") == head
    assert contents(work / ".git") == repository


@pytest.mark.parametrize("packed", [False, True])
def test_a_repository_that_was_removed_comes_back_whole(work, checkpoints, packed):
    if packed:
        git(work, "gc", "-q")
    (work / ".git" / "index.lock").write_text("")
    old = checkpoints.take().tree
    (work / ".git" / "index.lock").unlink()
    git(work, "commit", "-qm", "later")
    looked = looks(work)
    before = contents(work)
    tree = checkpoints.take().tree

    shutil.rmtree(work / ".git")
    shutil.rmtree(work / "src")
    gone = checkpoints.take().tree
    assert Change(".git", "deleted") in checkpoints.changes(tree, gone)
    assert Change(".git", "added") in checkpoints.restore(tree).changes

    assert without_objects(contents(work)) == without_objects(before)
    assert looks(work) == looked
    git(work, "fsck", "--strict")
    shutil.rmtree(work / ".git")
    checkpoints.restore(old)
    assert not (work / ".git" / "index.lock").exists()
    assert git(work, "log", "--format=%s") == "start\n"


def test_a_file_of_a_repository_is_written_after_those_it_refers_to(work, checkpoints, monkeypatch):
    git(work, "pack-refs", "--all")
    git(work, "branch", "loose")
    tree = checkpoints.take().tree
    shutil.rmtree(work / ".git")
    written = []

    def write(self, path, *entries):
        written.append(path.decode().removeprefix(".git/"))
        real(self, path, *entries)

    real = Restorer._write
    monkeypatch.setattr(Restorer, "_write", write)
    checkpoints.restore(tree)
    ranks = {"objects": 0, "refs": 2, "packed-refs": 2, "index": 3, "HEAD": 4, "ORIG_HEAD": 4}
    order = [ranks.get(path.split("/")[0], 1) for path in written]
    assert order == sorted(order)
    assert set(order) == {0, 1, 2, 3, 4}


def test_a_repository_within_comes_back_too(work, checkpoints):
    inner = work / "vendor" / "inner"
    shutil.copytree(work / ".git", inner / ".git")
    git(inner, "reset", "-q", "--hard")
    tree = checkpoints.take().tree
    shutil.rmtree(work / "vendor")
    checkpoints.restore(tree)
    git(inner, "fsck", "--strict")
    assert git(inner, "status", "--porcelain") == ""


def test_a_repository_that_appeared_goes_and_comes_again(work, checkpoints):
    tree = checkpoints.take().tree
    (work / "cloned").mkdir()
    git(work / "cloned", "init", "-q")
    (work / "cloned" / "file").write_text("")
    git(work / "cloned", "add", ".")
    git(work / "cloned", "commit", "-qm", "in the clone")
    later = checkpoints.take().tree
    gone = [Change("cloned/.git", "deleted"), Change("cloned/file", "deleted")]
    assert checkpoints.restore(tree).changes == gone
    assert not (work / "cloned").exists()
    checkpoints.restore(later)
    git(work / "cloned", "fsck", "--strict")
    assert git(work / "cloned", "status", "--porcelain") == ""


def test_a_copy_has_its_repository(work, checkpoints, tmp_path):
    looked = looks(work)
    tree = checkpoints.take().tree
    copy = tmp_path / "copy"
    assert checkpoints.write_out(tree, copy) == []
    assert looks(copy) == looked
    git(copy, "fsck", "--strict")
    git(copy, "commit", "-qam", "in the copy")
    assert looks(work) == looked


def test_the_copy_of_a_worktree_has_no_pointer_to_its_repository(work, tmp_path):
    tree_folder = tmp_path / "tree"
    git(work, "worktree", "add", "-q", str(tree_folder))
    checkpoints = Checkpoints(tree_folder, tmp_path / "store2")
    tree = checkpoints.take().tree
    notes = checkpoints.write_out(tree, tmp_path / "copy")
    assert notes == [".git is not in the copy: its repository is elsewhere"]
    assert not (tmp_path / "copy" / ".git").exists()
    (tree_folder / ".git").unlink()
    checkpoints.restore(tree)
    assert git(tree_folder, "status", "--porcelain") == ""


def test_trees_and_their_repository_go_to_another_store(work, checkpoints, tmp_path):
    before = contents(work)
    first = checkpoints.take().tree
    (work / "untracked").write_text("later\n")
    later = checkpoints.take().tree
    (work / "untracked").write_text("secret\n")
    checkpoints.take()

    other = tmp_path / "other"
    checkpoints.copy_to(other, [first, later])
    shutil.rmtree(tmp_path / "store")
    shutil.rmtree(work)
    work.mkdir()

    theirs = Checkpoints(work, other)
    assert "-untracked\n+later\n" in theirs.diff(first, later)
    theirs.restore(first)
    assert without_objects(contents(work)) == without_objects(before)
    git(work, "fsck", "--strict")


def test_a_first_snapshot_takes_ids_from_the_index(work, tmp_path):
    git(work, "reset", "-q", "--hard")
    git(work, "repack", "-adq")
    (work / "src" / "one").chmod(0o600)
    for name in ("one", "two", "three"):
        os.utime(work / "src" / name, (1_000_000_000, 1_000_000_000))
    git(work, "update-index", "--refresh")
    (work / "src" / "three").write_text("since\n")
    before = contents(work / "src")
    store = tmp_path / "store"
    tree = Checkpoints(work, store).take().tree

    stored = b"".join(path.read_bytes() for path in store.glob("objects/??/*"))
    names = {path.parent.name + path.name for path in store.glob("objects/??/*")}
    blob = git(work, "rev-parse", "HEAD:src/two").strip()
    assert stored
    assert blob not in names
    shutil.rmtree(work / "src")
    shutil.rmtree(work / ".git")
    Checkpoints(work, store).restore(tree)
    assert contents(work / "src") == before


@pytest.mark.parametrize("how", ["attributes", "configuration"])
def test_converted_files_are_kept_as_they_are(work, tmp_path, how):
    git(work, "reset", "-q", "--hard")
    (work / "crlf").write_bytes(b"one\r\ntwo\r\n")
    if how == "attributes":
        (work / ".gitattributes").write_text("* text=auto\n")
    else:
        git(work, "config", "core.autocrlf", "true")
    git(work, "add", ".")
    os.utime(work / "crlf", (1_000_000_000, 1_000_000_000))
    git(work, "update-index", "--refresh")
    assert git(work, "cat-file", "-p", ":crlf") == "one\ntwo\n"
    checkpoints = Checkpoints(work, tmp_path / "store")
    tree = checkpoints.take().tree
    (work / "crlf").unlink()
    checkpoints.restore(tree)
    assert (work / "crlf").read_bytes() == b"one\r\ntwo\r\n"


def test_nothing_of_a_hostile_repository_runs(work, tmp_path, monkeypatch):
    canary = tmp_path / "canary"
    script = tmp_path / "evil"
    script.write_text(f"#!/bin/sh\ntouch {canary}\ncat\n")
    script.chmod(0o755)
    for name in ("core.fsmonitor", "filter.x.clean", "filter.x.smudge", "filter.x.process"):
        git(work, "config", name, str(script))
    for name in ("diff.x.textconv", "diff.x.command", "diff.external", "core.pager", "alias.diff"):
        git(work, "config", name, f"!{script}" if name.startswith("alias") else str(script))
    (tmp_path / "more").write_text(f"[core]\n\tfsmonitor = {script}\n")
    with (work / ".git" / "config").open("a") as config:
        config.write(f"[include]\n\tpath = {tmp_path / 'more'}\n[extensions]\n\tworktreeConfig\n")
    (work / ".gitattributes").write_text("* filter=x diff=x\n")
    (work / ".git" / "info" / "attributes").write_text("* filter=x diff=x\n")
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        shutil.copy(script, work / ".git" / "hooks" / hook)
    for name, value in {
        "GIT_DIR": str(work / ".git"),
        "GIT_EXTERNAL_DIFF": str(script),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": str(script),
    }.items():
        monkeypatch.setenv(name, value)
    for n in range(600):
        (work / "build" / f"out{n}").write_text("")

    checkpoints = Checkpoints(work, tmp_path / "store")
    old = checkpoints.take().tree
    (work / "src" / "one").write_text("changed\n")
    (work / "src" / "three").unlink()
    new = checkpoints.take().tree
    assert "+changed" in checkpoints.diff(old, new)
    checkpoints.restore(old)
    checkpoints.write_out(old, tmp_path / "copy")
    checkpoints.copy_to(tmp_path / "other", [old])
    assert not canary.exists()


def test_nothing_in_the_store_is_a_lock_or_an_index(work, checkpoints, tmp_path):
    checkpoints.take()
    names = {path.name for path in (tmp_path / "store").rglob("*")}
    assert not any(name.endswith(".lock") or name.startswith("tmp_") for name in names)


def test_git_agrees_that_the_store_is_sound(work, checkpoints, tmp_path):
    for n in range(300):
        (work / f"file{n}").write_bytes(bytes(range(n % 256)) * n)
    (work / "empty").mkdir()
    tree = checkpoints.take().tree
    store = tmp_path / "store"
    assert list(store.glob("objects/pack/*.idx"))
    pack = next(store.glob("objects/pack/*.pack"))
    subprocess.run(["git", "verify-pack", pack], check=True, env={"PATH": os.environ["PATH"]})
    listed = subprocess.run(
        ["git", "--git-dir", store, "ls-tree", "-r", tree], check=True, capture_output=True
    )
    assert listed.stdout.count(b"\tfile") == 300


def test_a_symlink_in_place_of_a_repository_is_a_symlink(work, checkpoints, tmp_path):
    (work / ".git").rename(tmp_path / "repository")
    (work / ".git").symlink_to(tmp_path / "repository")
    tree = checkpoints.take().tree
    (work / ".git").unlink()
    checkpoints.restore(tree)
    assert stat.S_ISLNK((work / ".git").lstat().st_mode)
    assert not list((tmp_path / "store").glob("repositories/*"))


@pytest.fixture
def linked(work, checkpoints, monkeypatch):
    """A snapshot of a repository whose pack is too large for a copy."""
    monkeypatch.setattr(pack_store, "MOST_COPIED", 0)
    monkeypatch.setattr(pack_store, "share", lambda file, copy: False)
    git(work, "gc", "-q")
    tree = checkpoints.take().tree
    [pack] = (work / ".git/objects/pack").glob("*.pack")
    assert pack.stat().st_nlink == 2
    return tree, pack


def test_a_pack_too_large_for_a_copy_survives_being_removed(work, checkpoints, linked):
    tree, pack = linked
    pack.unlink()
    checkpoints.restore(tree)
    git(work, "fsck", "--strict")


def test_a_pack_too_large_for_a_copy_is_not_believed_when_it_was_overwritten(
    work, checkpoints, linked
):
    tree, pack = linked
    pack.chmod(0o644)
    with pack.open("r+b") as file:
        file.seek(20)
        file.write(b"theirs")
    with pytest.raises(CheckpointError, match="it was overwritten, and was too large for a copy"):
        checkpoints.restore(tree)


@pytest.mark.parametrize(
    ("path", "content", "comes"),
    [
        (".git/hooks/post-checkout", "#!/bin/sh", False),
        (".git/hooks/post-checkout.sample", "#!/bin/sh", True),
        (".git/commondir", "../evil", False),
        (".git/info/attributes", "* filter=x", False),
        ("new/.git/info/exclude", "*.o", True),
        (".git/modules/a/b/hooks/update", "#!/bin/sh", False),
        (".git/worktrees/w/commondir", "/evil", False),
        (".git/rebase-merge/git-rebase-todo", "pick 1\nexec rm x", False),
        (".git/rebase-merge/git-rebase-todo", "pick 1\n", True),
        (".git/MERGE_MSG", "merged", True),
        ("new/.git", "gitdir: ../evil", False),
        ("new/.git/config", "[core]\n\tbare = false\n", True),
        ("new/.git/config", "[core]\n\tfsmonitor = rm x\n", False),
    ],
)
def test_what_git_runs_comes_back_only_as_it_was_when_idle(work, checkpoints, path, content, comes):
    idle = checkpoints.take().tree
    made = work / path
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(content)
    (work / "beside").write_text("")
    between = checkpoints.take().tree
    checkpoints.restore(idle)
    assert not made.exists()
    done = checkpoints.restore(between, idle=[idle])
    assert (made.exists(), done.held) == (comes, [] if comes else [path])
    assert (work / "beside").exists()
    made.unlink(missing_ok=True)
    assert checkpoints.restore(between, idle=[idle, between]).held == []
    assert made.read_text() == content
