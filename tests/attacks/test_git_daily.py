"""git's daily work inside, in each layer: what guards its hooks and settings is in nobody's way."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tests.attacks.raids import IDENTITY, Arena, bash, every_layer
from tests.sandbox.sandboxes import git
from tests.server import Recorded, Reply

SET = "export GIT_EDITOR=true GIT_SEQUENCE_EDITOR=true GIT_ALLOW_PROTOCOL=file:https; "

COMMITS = """
seq 1 30 >lines && git add lines && git commit -qm lines
echo x >>lines && git commit -qam more && git commit -q --amend -m other
echo p >>lines && printf 'y\\n' | git add -p && git commit -qm part && git reset -q --hard
echo p >>lines && printf 'y\\n' | git commit -qpm part
echo q >>lines && git commit -qm only -- lines
echo s >>lines && git stash -q && git stash pop -q && git restore lines
echo u >untracked && git stash -qu && git stash apply -q && git stash drop -q && rm untracked
echo s >>lines && git stash push -qm named -- lines && git stash branch stashed
git commit -qam stashed && git checkout -q main && git branch -D stashed
git tag -a v1 -m v1 && git tag v2 && git tag -d v2 && git notes add -m note && git notes list
git mv lines moved && git rm -q --cached first && git reset -q --hard && git clean -fdq moved
git reflog expire --expire=now refs/heads/main && git update-ref refs/x HEAD && git log -g -1
"""
MERGES = """
git switch -qc one && sed -i 1s/.*/one/ first && git commit -qam one
git switch -q main && sed -i 1s/.*/main/ first && git commit -qam main
! git merge -q one && git merge --abort
! git merge -q one && echo both >first && git add first && git commit -qm merged
git switch -qc two main~1 && ! git rebase -q one && git rebase --abort
! git rebase -q one && echo two >first && git add first && git rebase --continue
git rebase -qi --exec true HEAD~1 && git rebase -q --apply main~1 || git rebase --abort
git switch -q main && ! git cherry-pick one && git cherry-pick --abort
! git cherry-pick one && git cherry-pick --skip || git cherry-pick --quit
git reset -q --hard && git revert --no-edit -m1 HEAD && git reset -q --hard HEAD~1
git merge -q --squash two || git reset -q --hard
git bisect start HEAD HEAD~2 && git bisect run true && git bisect reset
git checkout -q --detach && git checkout -q main && git checkout -q --orphan empty
git checkout -qf main && git branch three && git branch -D three
git format-patch -q -1 -o patches one && git switch -qc patched one~1 && git am -q patches/*
git switch -q main && git rerere && git describe --always && git archive -o a.tar HEAD
"""
UPKEEP = """
git gc -q && git repack -adq && git pack-refs --all && git prune && git fsck
git commit-graph write && git multi-pack-index write && git maintenance run --quiet
git update-index --split-index && git status --short && git update-index --no-split-index
git worktree add -q --detach tree && git -C tree commit -q --allow-empty -m there
git worktree lock tree && git worktree unlock tree && git worktree move tree tree-2
git worktree remove tree-2
git worktree prune && git worktree list
git clone -q . copy && git -C copy commit -q --allow-empty -m inside && git -C copy push -q . HEAD:x
git clone -q --bare . bare.git && git fetch -q ./bare.git && git push -q ./bare.git HEAD:new
git clone -q --depth 1 "file://$PWD" shallow && git -C shallow fetch -q --unshallow
git init -q fresh && git -C fresh add . && git -C fresh commit -q --allow-empty -m first
git submodule status && git -C part log --oneline
git -C part commit -q --allow-empty -m in-part && git add part && git commit -qm part
git fast-export HEAD | git fast-import --force --quiet && git bundle create -q b HEAD
rm -rf copy bare.git shallow fresh patches a.tar b
"""
COMMIT_DEEP = "cd a/b/c/d && git commit -q --allow-empty -m deep && git gc -q && echo WORKED"


def run_all(place: Arena, commands: str) -> list[str]:
    place.agent.env |= IDENTITY
    calls = []
    for number, command in enumerate(commands.strip().splitlines()):
        script = place.workspace / f".{number}.sh"
        script.write_text(f"{SET}{{ {command}; }} && echo WORKED\n")
        calls.append(bash(f"bash .{number}.sh 2>&1"))
    run = place.does(calls)
    assert run.exit_code == 0, run.stderr
    assert "set aside" not in run.stderr, run.stderr
    assert "put back" not in run.stderr, run.stderr
    return run.told


def failed(told: list[str]) -> list[str]:
    return [said for said in told if not said.rstrip().endswith("WORKED")]


@every_layer
@pytest.mark.parametrize("commands", [COMMITS, MERGES, UPKEEP], ids=["commit", "merge", "upkeep"])
def test_daily_work_goes_on(arena, layer, commands):
    place = arena(layer)
    git(place.workspace, "commit", "-qm", "with a submodule")
    assert failed(run_all(place, commands)) == []
    assert git(place.workspace, "fsck", "--no-dangling").strip() == ""


@every_layer
def test_a_repository_that_is_made_here_is_left_as_it_was_made(arena, layer):
    """In an empty folder, with parts of its own, and by a clone."""
    place = arena(layer)
    place.agent.workspace = work = place.base / "empty"
    work.mkdir()
    told = run_all(
        place,
        "git init -q -b main . && git remote add origin https://example.org/x.git\n"
        "git config user.email me@example.org && echo a >a && git add a && git commit -qm a\n"
        "git config branch.main.remote origin && git config branch.main.merge refs/heads/main\n"
        "git init -q lib && git -C lib commit -q --allow-empty -m lib\n"
        "git -c protocol.file.allow=always submodule --quiet add $PWD/lib sub\n"
        "git commit -qm sub\n"
        "git worktree add -q --detach tree && git -C tree sparse-checkout set --cone lib\n"
        "git config extensions.worktreeConfig && git -C tree status --short\n"
        "git -c protocol.file.allow=always clone -q --recurse-submodules . copy\n"
        "git -C copy/sub log --oneline && git -C sub commit -q --allow-empty -m more\n"
        "git bisect start && git rebase -q --root && git maintenance run --quiet\n",
    )
    assert failed(told) == []
    assert git(work, "remote", "get-url", "origin").strip() == "https://example.org/x.git"
    assert (work / ".git/hooks/pre-commit.sample").exists()
    assert "core.worktree" in git(work / "sub", "config", "--list")
    assert git(work / "copy/sub", "log", "--format=%s").strip() == "lib"


@every_layer
def test_what_people_do_beside_it_stays(arena, layer):
    """With git itself, in the workspace and deep in it, while commands run."""
    place = arena(layer)
    work = place.workspace
    git(work, "commit", "-qm", "with a submodule")
    deep = work / "a/b/c/d"
    deep.mkdir(parents=True)
    git(deep, "init", "-q")
    (deep / ".git/hooks/pre-push").write_text("#!/bin/sh\nexit 0\n")
    git(deep, "config", "core.sshCommand", "ssh -v")

    def beside(request: Recorded) -> Reply:
        for line in (
            "worktree add -q -b mine ../mine",
            "config user.name me",
            "remote add mine https://example.org/mine",
            f"-c protocol.file.allow=always submodule --quiet add {place.base}/part other",
            "commit -qm other",
            "gc -q",
            "config gc.auto 0",
        ):
            git(work, *line.split())
        return Reply("", [bash(COMMIT_DEEP)])

    place.agent.env |= IDENTITY
    run = place.run([Reply("", [bash("true")]), beside, Reply("Done.")])
    assert run.exit_code == 0, run.stderr
    assert "put right: " not in run.stderr, run.stderr
    assert "WORKED" in run.told[-1]
    assert (deep / ".git/hooks/pre-push").exists()
    assert git(deep, "config", "core.sshCommand").strip() == "ssh -v"
    assert git(work, "config", "--local", "user.name").strip() == "me"
    assert "example.org/mine" in git(work, "remote", "-v")
    assert git(work / "other", "status", "--short") == ""
    assert git(place.base / "mine", "status", "--short") == ""


@every_layer
def test_a_kill_costs_a_repository_of_the_person_nothing(arena, layer):
    """Not even one deep in the workspace that was worked in, by commands and by them."""
    place = arena(layer)
    deep = place.workspace / "a/b/c/d"
    deep.mkdir(parents=True)
    git(deep, "init", "-q")
    (deep / ".git/hooks/pre-push").write_text("#!/bin/sh\nexit 0\n")
    git(deep, "config", "core.sshCommand", "ssh -v")
    place.agent.env |= IDENTITY
    killed = place.killed_after(bash(COMMIT_DEEP))
    assert "WORKED" in killed.told[-1]
    git(deep, "commit", "-q", "--allow-empty", "-m", "mine")
    run = place.run([Reply("Done.")])
    assert "put right: " not in run.stderr, run.stderr
    assert (deep / ".git/hooks/pre-push").exists()
    assert git(deep, "config", "core.sshCommand").strip() == "ssh -v"


@every_layer
def test_a_worktree_goes_on(arena, layer):
    """Where the main folder is elsewhere, and is no more open than its own."""
    place = arena(layer)
    git(place.workspace, "commit", "-qm", "with a submodule")
    main, side = place.workspace, place.base / "side"
    place.agent.workspace = side
    told = run_all(
        place,
        "echo x >new && git add new && git commit -qm new\n"
        "echo y >>new && git stash -q && git stash pop -q && git commit -qam y\n"
        "git rebase -q main && git worktree list && git gc -q\n",
    )
    assert failed(told) == []
    assert "y" in git(main, "log", "--format=%s", "side")


@every_layer
@pytest.mark.skipif(shutil.which("git-lfs") is None, reason="needs git-lfs")
def test_large_files_go_on(arena, layer):
    place = arena(layer)
    subprocess.run(["git", "lfs", "install", "--local"], cwd=place.workspace, check=True)
    told = run_all(
        place,
        "git lfs track '*.bin' && echo x >a.bin && git add . && git commit -qm large\n"
        "git lfs ls-files && git lfs fsck\n",
    )
    assert failed(told) == []
