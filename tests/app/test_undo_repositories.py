"""Going back in repositories of every kind: what belongs to them is found wherever it lies."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.app.undoing import Looks, Walk, looks, sh

BEGIN = (
    "echo a > a; mkdir d; echo b > d/b; git add -A; git commit -qm 1; echo 2 > a;"
    "git commit -qam 2; git branch topic; echo stashed > a; git stash -q; echo staged > d/b;"
    "git add d/b; git tag -a v1 -m v1"
)
LOSES_OBJECTS = (
    "git stash drop -q; git branch -D topic; git reflog expire --expire=now --all;"
    "git gc -q --prune=now"
)
EVERYTHING = "find . -mindepth 1 -delete"


def make(folder: Path, commands: str = BEGIN, options: str = "") -> Path:
    folder.mkdir()
    sh(folder, f"git init -q {options}; {commands}")
    return folder


def plain(base: Path) -> Path:
    return make(base / "work")


def worktree(base: Path) -> Path:
    main = make(base / "main")
    sh(main, "git worktree add -q ../work topic; cd ../work; echo w > w; git add w")
    return base / "work"


def worktree_of_bare(base: Path) -> Path:
    make(base / "main")
    sh(base, "git clone -q --bare main main.git; git -C main.git worktree add -q ../work topic")
    return base / "work"


def submodules(base: Path) -> Path:
    make(base / "lib")
    work = plain(base)
    sh(work, "git submodule add -q ../lib libs/x; git submodule add -q --name a/b ../lib y")
    sh(work, "git commit -qm parts; cd libs/x; git checkout -q topic; echo z > z; git add z")
    return work


def sha256(base: Path) -> Path:
    return make(base / "work", options="--object-format=sha256")


def shallow(base: Path) -> Path:
    make(base / "up")
    sh(base, "git clone -q --depth 1 file://$PWD/up work")
    sh(base / "work", "echo n > n; git add n; git commit -qm n; echo s > a; git stash -q")
    return base / "work"


def partial(base: Path) -> Path:
    sh(make(base / "up"), "git config uploadpack.allowFilter true")
    sh(base, "git clone -q --filter=blob:none file://$PWD/up work")
    sh(base / "work", "echo n > n; git add n; git commit -qm n; echo s > a; git stash -q")
    return base / "work"


def with_alternates(base: Path) -> Path:
    make(base / "up")
    sh(base, "git clone -q --shared up work")
    sh(base / "work", "echo n > n; git add n; git commit -qm n; echo s > a; git stash -q")
    return base / "work"


def split_index(base: Path) -> Path:
    work = plain(base)
    sh(work, "git config core.splitIndex true; git update-index --split-index; echo q > q")
    sh(work, "git add q")
    return work


def bare_within(base: Path) -> Path:
    work = plain(base)
    sh(work, "git clone -q --bare . inner.git; git -C inner.git gc -q; git -C inner.git branch x")
    return work


def nested(base: Path) -> Path:
    work = plain(base)
    make(work / "vendor")
    return work


def multi_pack(base: Path) -> Path:
    work = plain(base)
    sh(work, "git repack -q; echo m > m; git add m; git commit -qm m; git repack -q")
    sh(work, "git multi-pack-index write --bitmap; git commit-graph write --reachable")
    return work


CASES = [
    (worktree, "rm -rf ../main/.git/objects"),
    (worktree, "find ../main/.git -type f -delete"),
    (worktree, "rm -rf ../main/.git"),
    (worktree, "rm ../main/.git/worktrees/work/index"),
    (worktree, "git commit -qam x; git branch -D main; git stash drop -q"),
    (worktree, "git checkout -q -b new; git commit -qam more; " + LOSES_OBJECTS),
    (worktree, "find . -delete; find ../main/.git -delete"),
    (worktree_of_bare, "find ../main.git -delete"),
    (worktree_of_bare, "git commit -q --allow-empty -m e; git branch -D main"),
    (submodules, "git submodule deinit -qf libs/x y; rm -rf .git/modules"),
    (submodules, EVERYTHING),
    (submodules, "rm -rf .git/modules/libs/x/objects .git/modules/a/b/refs"),
    (submodules, "rm .git/modules/libs/x/HEAD .git/modules/a/b/index"),
    (submodules, "cd libs/x; git commit -qm in; " + LOSES_OBJECTS),
    (submodules, "find .git/modules -type f | while read f; do chmod u+w $f; : > $f; done"),
    *((kind, EVERYTHING) for kind in (sha256, shallow, partial, with_alternates, split_index)),
    *((kind, "rm -rf .git/objects") for kind in (sha256, shallow, partial, with_alternates)),
    *((kind, LOSES_OBJECTS) for kind in (sha256, shallow, with_alternates, multi_pack)),
    (sha256, "git commit -qam z"),
    (shallow, "rm -f .git/shallow"),
    (partial, "rm -f .git/objects/pack/*.promisor"),
    (split_index, "rm .git/index .git/sharedindex.*"),
    (split_index, "git add -A; git commit -qm x"),
    (multi_pack, "for f in .git/objects/pack/*; do chmod u+w $f; : > $f; done"),
    (multi_pack, "rm .git/objects/pack/multi-pack-index* .git/objects/info/commit-graph"),
    (bare_within, "rm -rf inner.git"),
    (bare_within, "git -C inner.git branch -D x; git -C inner.git gc -q --prune=now"),
    (nested, "rm -rf vendor"),
    (nested, "cd vendor; git commit -qam x; " + LOSES_OBJECTS),
    (nested, "find . -type f -delete"),
]


def all_looks(base: Path, work: Path) -> list[Looks]:
    places = (work, base / "main", work / "libs/x", work / "y", work / "vendor")
    return [looks(place) for place in places]


def sound(look: Looks) -> bool:
    return bool(look.git) and look.git[-1][0] == 0


@pytest.mark.cases(12)
@pytest.mark.parametrize(
    ("kind", "command"), CASES, ids=[f"{kind.__name__}: {command}" for kind, command in CASES]
)
@pytest.mark.campaign
def test_what_a_step_did_to_git_is_undone(kind, command, tmp_path):
    work = kind(tmp_path)
    with Walk(tmp_path / "home", work) as walked:
        before = all_looks(tmp_path, work)
        assert sound(before[0])
        walked.steps([command])
        after = all_looks(tmp_path, work)
        done = walked.undo()
        assert all_looks(tmp_path, work) == before
        if all(sound(now) for then, now in zip(before, after, strict=True) if sound(then)):
            walked.rewind(done.kept_at)
            assert all_looks(tmp_path, work) == after


def test_of_a_shared_repository_a_rewind_touches_only_what_the_session_did(tmp_path):
    work = worktree(tmp_path)
    with Walk(tmp_path / "home", work) as walked:
        walked.steps(["git commit -qam mine"])
        before = looks(work).git[3]
        first = next(e.id for e in walked.session.events if e.kind == "checkpoint")
        sh(tmp_path / "main", "git commit -qam theirs; git branch theirs; git stash pop -q")
        theirs = looks(tmp_path / "main")
        walked.rewind(first)
        assert looks(work).git[3] != before
        now = looks(tmp_path / "main")
        assert (now.files, now.git[:2]) == (theirs.files, theirs.git[:2])
        assert b"refs/heads/theirs" in now.git[2][1]


def test_a_session_in_a_folder_of_a_repository_undoes_what_it_did_to_all_of_it(tmp_path):
    """Commands may write to all of it, so checkpoints hold all of it."""
    work = plain(tmp_path)
    before = looks(work)
    with Walk(tmp_path / "home", work / "d") as walked:
        walked.steps(["rm ../a; echo new > ../new; git -C .. commit -qam all; rm -rf ../.git b"])
        done = walked.undo()
    assert looks(work) == before
    assert {"../a", "../new", "../.git", "b"} <= {change.path for change in done.changes}


def test_of_a_repository_with_too_many_files_the_folder_itself_is_kept(tmp_path, monkeypatch):
    from agentcli.checkpoints import scan as snapshot_scan

    monkeypatch.setattr(snapshot_scan, "MOST_FILES", 100)
    monkeypatch.setattr(snapshot_scan, "_ALONE", 10)
    work = plain(tmp_path)
    sh(work, "for n in $(seq 200); do echo > file$n; done")
    head = looks(work).git[3]
    with Walk(tmp_path / "home", work / "d") as walked:
        walked.steps(["rm b; git commit -qam x", "rm -rf ../.git"])
        walked.undo(2)
    assert looks(work).git[3] == head
    assert (work / "d" / "b").read_text() == "staged\n"


# --- what somebody else does meanwhile -----------------------------------------------------------


def test_looking_at_the_repository_is_not_in_the_way(tmp_path):
    work = plain(tmp_path)
    before = looks(work)
    with Walk(tmp_path / "home", work) as walked:
        walked.steps(["echo x > a; git add a; git commit -qm x"])
        sh(work, "touch d/b a; git status; git diff; git fetch -q . main; git gc -q")
        walked.undo()
    assert looks(work) == before


@pytest.mark.parametrize(
    ("step", "theirs"),
    [
        ("git commit -qam x", "git commit -q --allow-empty -m theirs"),
        ("git add a", "git add u"),
        ("git stash drop -q", "echo 9 > a; git stash -q"),
        ("git checkout -q topic", "git checkout -q --detach"),
        ("git branch -m topic other", "git branch -f other HEAD~1"),
    ],
)
def test_what_somebody_else_did_to_the_same_is_asked_about(step, theirs, tmp_path):
    from agentcli.errors import UsageError

    work = plain(tmp_path)
    sh(work, "git reset -q --hard; echo c > a; echo u > u")
    before = looks(work)
    with Walk(tmp_path / "home", work) as walked:
        walked.steps([step])
        sh(work, theirs)
        now = looks(work)
        with pytest.raises(UsageError, match="changed since by somebody else"):
            walked.undo()
        assert looks(work) == now
        done = walked.undo(force=True)
        again = looks(work)
        assert again.git[0] == before.git[0]
        walked.rewind(done.kept_at)
        assert looks(work).git[:5] == now.git[:5]


def test_what_somebody_else_did_to_other_references_stays(tmp_path):
    work = plain(tmp_path)
    with Walk(tmp_path / "home", work) as walked:
        sh(work, "git pack-refs --all")
        walked.steps(["git branch -D topic; git tag -d v1"])
        sh(work, "git branch mine; git tag light; git pack-refs --all; git branch later")
        walked.undo()
    names = sh(work, "git for-each-ref --format='%(refname:short)'").stdout.decode().split()
    assert names == ["later", "main", "mine", "topic", "stash", "light", "v1"]


def test_a_failed_git_command_left_by_a_step_is_in_nobodys_way(tmp_path):
    work = plain(tmp_path)
    with Walk(tmp_path / "home", work) as walked:
        walked.steps(["touch .git/index.lock; echo x > a"])
        walked.undo()
    assert sh(work, "git add -A").returncode == 0


def test_a_lock_of_somebody_at_work_is_neither_made_nor_removed(tmp_path):
    work = plain(tmp_path)
    lock = work / ".git" / "index.lock"
    lock.write_text("")
    with Walk(tmp_path / "home", work) as walked:
        walked.steps(["rm .git/index.lock; echo x > a"])
        lock.write_text("mine")
        walked.undo(force=True)
        assert lock.read_text() == "mine"
        lock.unlink()
        walked.steps(["echo y > a"])
        walked.undo()
    assert not lock.exists()


def test_git_agrees_with_what_is_written(tmp_path):
    work = multi_pack(tmp_path)
    with Walk(tmp_path / "home", work) as walked:
        walked.steps(["rm -rf .git"])
        walked.undo()
    for check in ("multi-pack-index verify", "commit-graph verify", "fsck --strict"):
        done = subprocess.run(["git", *check.split()], cwd=work, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
