"""A repository whose configuration runs programs wherever git lets it: none may run when agent
looks at it by itself. (What a command of the model makes git do is the sandbox's to contain.)"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from agentcli.git import safe
from agentcli.knowledge.knowledge import WorkspaceFacts
from tests.attacks.raids import LAYERS_ALONE, in_turn
from tests.conftest import git
from tests.server import Call, Reply

HOOKS = (
    *("pre-commit", "post-commit", "post-checkout", "post-index-change", "reference-transaction"),
    *("fsmonitor-watchman", "query-watchman", "pre-auto-gc", "post-rewrite", "pre-push", "update"),
)

CONFIG = """
[core]
    fsmonitor = {canary} fsmonitor
    hooksPath = {hooks}
    sshCommand = {canary} ssh
    gitProxy = {canary} proxy
    pager = {canary} pager
    editor = {canary} editor
    askPass = {canary} askpass
    alternateRefsCommand = {canary} alternate-refs
    worktree = {outside}
[extensions]
    partialClone = origin
    worktreeConfig = true
[remote "origin"]
    url = ext::{canary} ext
    promisor = true
    uploadpack = {canary} uploadpack
    vcs = canary
[protocol]
    allow = always
[protocol "ext"]
    allow = always
[diff]
    external = {canary} diff-external
[diff "evil"]
    command = {canary} diff-command
    textconv = {canary} textconv
[merge "evil"]
    driver = {canary} merge
[filter "evil"]
    clean = {canary} clean
    smudge = {canary} smudge
    process = {canary} process
    required = true
[filter "with space"]
    clean = {canary} clean-space
[pager]
    status = {canary} pager-status
    log = {canary} pager-log
[alias]
    status = !{canary} alias
    rev-parse = !{canary} alias
[log]
    showSignature = true
[gpg]
    program = {canary} gpg
[gpg "ssh"]
    program = {canary} gpg-ssh
[credential]
    helper = !{canary} credential
[interactive]
    diffFilter = {canary} interactive
[uploadpack]
    packObjectsHook = {canary} pack-objects
[trailer "x"]
    command = {canary} trailer
[trace2]
    eventTarget = {ran}/trace2
[status]
    submoduleSummary = true
[submodule]
    recurse = true
[include]
    path = {included}
"""
INCLUDED = """
[filter "included"]
    clean = {canary} included-clean
    process = {canary} included-process
[core]
    fsmonitor = {canary} included-fsmonitor
"""


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """The folder where each program that ran leaves its name."""
    folder = tmp_path / "ran"
    folder.mkdir()
    return folder


@pytest.fixture
def hostile(agent, repository: Path, ran: Path, tmp_path: Path) -> Path:
    canary = tmp_path / "canary"
    canary.write_text(f'#!/bin/sh\n: > "{ran}/ran-${{1:-it}}-$$"\nexit 1\n')
    canary.chmod(0o755)
    (repository / "tally.py").write_text("changed = True\n")
    (repository / "b.inc").write_text("included\n")
    (repository / "c.sp").write_text("space\n")
    (repository / ".gitattributes").write_text(
        "*.py filter=evil diff=evil merge=evil\n*.inc filter=included\n* filter=evil diff=evil\n"
    )
    make_submodule(repository, canary)
    # Only the content tells that it is unchanged, so git has to read it: through the filter.
    os.utime(repository / "test_tally.py", (1, 1))
    git(repository, "add", "--intent-to-add", "b.inc", "c.sp")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "private-name").write_text("")
    hooks = repository / "evil-hooks"
    for folder in (hooks, repository / ".git/hooks"):
        folder.mkdir(exist_ok=True)
        for name in HOOKS:
            (folder / name).unlink(missing_ok=True)
            (folder / name).symlink_to(canary)
    places = {"canary": canary, "hooks": hooks, "outside": outside, "ran": ran}
    (repository / "evil.inc").write_text(INCLUDED.format(**places))
    config = CONFIG.format(**places, included=repository / "evil.inc")
    with (repository / ".git/config").open("a") as file:
        file.write(config)
    (repository / ".git/config.worktree").write_text(INCLUDED.format(**places))
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/attributes").write_text("* filter=evil diff=evil\n")
    return repository


def make_submodule(repository: Path, canary: Path) -> None:
    """One with a monitor of its own, which git asks when it looks into submodules."""
    module = repository / "module"
    module.mkdir()
    git(module, "init", "-q")
    (module / "file").write_text("x\n")
    git(module, "add", ".")
    git(module, "commit", "-qm", "module")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "module")
    git(module, "config", "core.fsmonitor", f"{canary} module-fsmonitor")


def anything(path: Path) -> bool:
    return True


def look(folder: Path, limit_s: float = 10) -> safe.RepositoryStatus | None:
    return safe.repository_status(folder, "/usr/bin/git", limit_s, anything)


def names(ran: Path) -> list[str]:
    return sorted(path.name for path in ran.iterdir())


def test_the_trap_works(hostile, ran):
    """Otherwise the other tests would prove nothing."""
    subprocess.run(["git", "status"], cwd=hostile, capture_output=True)
    subprocess.run(["git", f"--work-tree={hostile}", "diff"], cwd=hostile, capture_output=True)
    assert any("fsmonitor" in name for name in names(ran))
    assert any("process" in name or "clean" in name for name in names(ran))


def test_the_facts_of_a_hostile_repository_are_told_and_nothing_runs(hostile, ran):
    text = WorkspaceFacts(hostile, dict(os.environ), anything).text()
    assert names(ran) == []
    assert "- git: ma" in text
    assert " M tally.py" in text
    assert "start" in text
    assert "private-name" not in text


def test_a_commit_that_must_be_fetched_first_is_not(hostile, ran):
    """A partial clone asks its remote for what is not there, and the remote names a program."""
    (hostile / ".git/refs/heads/ghost").write_text("1" * 40 + "\n")
    (hostile / ".git/HEAD").write_text("ref: refs/heads/ghost\n")
    look(hostile, limit_s=5)
    assert names(ran) == []


def test_a_whole_session_in_a_hostile_repository_runs_nothing(agent, serve, hostile, ran):
    edit = {"path": "notes.md", "content": "new\n"}
    agent.use(
        serve([Reply("", [Call("write", edit), Call("grep", {"pattern": "x"})]), Reply("Ok")])
    )
    done = agent("run", "--yolo", "write")
    assert done.returncode == 0, done.stderr
    agent("doctor")
    assert "new" in agent("diff").stdout
    assert agent("undo").returncode == 0
    agent("sessions", "list")
    assert names(ran) == []


@pytest.mark.parametrize("kind", ["fifo", "endless", "loop", "broken"])
def test_a_repository_that_can_not_be_read_holds_nothing_up(repository, tmp_path, kind):
    config = repository / ".git/config"
    if kind == "fifo":
        os.mkfifo(repository / "fifo")
        config.write_text(f"[include]\n\tpath = {repository}/fifo\n")
    elif kind == "endless":
        config.unlink()
        config.symlink_to("/dev/zero")
    elif kind == "loop":
        config.write_text(f"[include]\n\tpath = {config}\n")
    else:
        (repository / ".git").rename(tmp_path / "aside")
        (repository / ".git").write_text("gitdir: .git\n")
    assert look(repository, limit_s=0.5) is None


def test_what_people_do_with_git_is_told_as_git_tells_it(repository):
    git(repository, "checkout", "-q", "-b", "topic")
    git(repository, "branch", "-q", "--set-upstream-to=master", "topic") if "master" in git(
        repository, "branch"
    ) else git(repository, "branch", "-q", "--set-upstream-to=main", "topic")
    (repository / "new file").write_text("x\n")
    (repository / "tally.py").unlink()
    git(repository, "update-index", "--split-index")
    (repository / ".git/info").mkdir(exist_ok=True)
    (repository / ".git/info/exclude").write_text("*.skip\n")
    (repository / "a.skip").write_text("")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    told = look(repository)
    assert told is not None
    assert told.branch.startswith("topic...ma")
    assert told.branch.endswith("[ahead 1]")
    assert list(told.changes) == git(repository, "status", "--porcelain").splitlines()
    assert [line.split(" ", 1)[1] for line in told.commits] == ["second", "start"]


def test_worktrees_new_repositories_and_detached_heads_are_understood(repository, tmp_path):
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"), "-b", "side")
    told = look(tmp_path / "tree")
    assert told is not None
    assert (told.branch, told.changes) == ("side", ())
    git(repository, "checkout", "-q", "--detach")
    told = look(repository)
    assert told is not None
    assert told.branch.startswith("no branch, at ")
    new = tmp_path / "new"
    new.mkdir()
    git(new, "init", "-q", "-b", "first")
    (new / "a").write_text("a\n")
    told = look(new)
    assert told is not None
    assert (told.branch, told.changes, told.commits) == ("first, no commit yet", ("?? a",), ())


LEADS = {
    "pointer": "echo gitdir: $SECRET/.git >.git",
    "link": "ln -s $SECRET/.git .git",
    "common_folder": "git init -q; echo $SECRET/.git >.git/commondir",
    "objects": (
        "git init -q; rm -rf .git/objects; ln -s $SECRET/.git/objects .git/objects\n"
        "cp $SECRET/.git/refs/heads/* .git/refs/heads"
    ),
    "some_objects": (
        "git init -q; for d in $SECRET/.git/objects/??; do ln -s $d .git/objects; done\n"
        "cp $SECRET/.git/refs/heads/* .git/refs/heads"
    ),
    "borrowed_objects": (
        "git init -q; echo $SECRET/.git/objects >.git/objects/info/alternates\n"
        "cp $SECRET/.git/refs/heads/* .git/refs/heads"
    ),
    "borrowed_from_a_borrower": (
        "git init -q; git init -q --bare x; echo ../../x/objects >.git/objects/info/alternates\n"
        "ln -s $SECRET/.git x/git; echo ../git/objects >x/objects/info/alternates\n"
        "cp $SECRET/.git/refs/heads/* .git/refs/heads"
    ),
    "worktree": (
        "git -C $SECRET worktree add -q --detach $PWD/tree; mv tree/.git .git; rmdir tree || :"
    ),
}


@in_turn("lead", LEADS, [*LAYERS_ALONE, ("none",)])
def test_a_repository_in_a_hidden_place_is_not_told(arena, layer, lead):
    """Its subjects are names of accounts, and whoever made the folder chose where it leads."""
    place = arena(layer)
    secret = place.home / ".password-store"
    secret.mkdir()
    for arguments in (
        ("init", "-q"),
        ("commit", "-q", "--allow-empty", "-m", "Add account of bob@bank"),
    ):
        git(secret, *arguments)
    work = place.base / "unpacked"
    work.mkdir()
    place.agent.workspace = work
    subprocess.run(["sh", "-ec", LEADS[lead]], cwd=work, env={**os.environ, "SECRET": str(secret)})
    assert "bob@bank" in git(work, "log")
    flags = ["--no-sandbox", "--yolo"] if layer == "none" else []
    run = place.run([Reply("Done.")], *flags)
    assert run.exit_code == 0, run.stderr
    assert "bob@bank" not in json.dumps([request.body for request in run.requests])
