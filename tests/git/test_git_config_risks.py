"""What is taken for harmless in a repository's settings is, and what is new is named."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from agentcli.git.config import is_among
from agentcli.git.git_config_risks import (
    RepositoryJudge,
    changes_since_start,
    snapshot_repository_config,
)
from tests.conftest import git

READS = (
    "git status; git diff; git log -p -2; git blame tally.py; git grep -n x; git describe --dirty"
)
NAMES = {"driver": "evil", "slot": "x", "remote": "origin", "tool": "x", "alias": "status"}


def facts(workspace: Path, tmp_path: Path) -> RepositoryJudge:
    return RepositoryJudge(
        workspace, tmp_path / "store", {"HOME": str(tmp_path)}, lambda path: True
    )


def known_settings() -> list[str]:
    """All that this git documents, by example."""
    listed = subprocess.run(["git", "help", "-c"], capture_output=True, text=True, check=True)
    names = [line.strip() for line in listed.stdout.splitlines()]
    names = [re.sub(r"<(\w+)[^>]*>|\*", lambda m: NAMES.get(m[1], "x"), name) for name in names]
    return sorted({name for name in names if re.fullmatch(r"[\w.-]+\.[\w.-]+", name)})


@pytest.mark.campaign
def test_no_setting_that_is_taken_for_harmless_has_reading_commands_run_it(repository, tmp_path):
    program, ran = tmp_path / "canary", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    program.chmod(0o755)
    (repository / "tally.py").write_text("changed\n")
    (repository / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    config = repository / ".git/config"
    before = config.read_text()
    plain = [name for name in known_settings() if is_among("read_without_program", name.lower())]
    assert len(plain) > 200
    environment = {"PATH": os.defpath + ":/bin:/usr/bin", "HOME": str(tmp_path)}
    environment |= {"GIT_PAGER": "cat", "GIT_EDITOR": "true", "PAGER": "cat"}
    guilty = []
    for name in plain:
        section, _, key = name.rpartition(".")
        first, _, rest = section.partition(".")
        head = f'[{first} "{rest}"]' if rest else f"[{first}]"
        config.write_text(f"{before}{head}\n {key} = {program}\n")
        subprocess.run(READS, shell=True, cwd=repository, env=environment, capture_output=True)
        if ran.exists():
            guilty.append(name)
            ran.unlink()
    assert guilty == []


def test_the_canary_would_sing(repository, tmp_path):
    """Else the test above would prove nothing."""
    program, ran = tmp_path / "canary", tmp_path / "ran"
    program.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    program.chmod(0o755)
    git(repository, "config", "diff.evil.textconv", str(program))
    (repository / ".gitattributes").write_text("* diff=evil\n")
    subprocess.run(READS, shell=True, cwd=repository, capture_output=True)
    assert ran.exists()
    assert "diff.evil.textconv" in facts(repository, tmp_path).reading_objection(repository)


def test_what_can_not_be_told_is_no_reading(repository, tmp_path):
    judge = facts(repository, tmp_path)
    assert judge.reading_objection(repository) == ""
    assert judge.reading_objection(tmp_path) == "", "where there is no repository git reads nothing"
    config = repository / ".git/config"
    before = config.read_text()
    for text in ("[include]\n path = config\n", "[broken\n", "[future]\n newThing = x\n"):
        config.write_text(before + text)
        assert judge.reading_objection(repository)
    config.unlink()
    os.mkfifo(config)
    assert judge.reading_objection(repository)


def test_submodules_are_looked_into(repository, tmp_path):
    module = repository / "module"
    module.mkdir()
    git(module, "init", "-q")
    (module / "file").write_text("x\n")
    git(module, "add", ".")
    git(module, "commit", "-qm", "module")
    git(repository, "-c", "advice.addEmbeddedRepo=false", "add", "module")
    judge = facts(repository, tmp_path)
    assert judge.reading_objection(repository) == ""
    git(module, "config", "core.fsmonitor", "./evil")
    assert judge.reading_objection(repository) == (
        "in a submodule, the repository's setting core.fsmonitor may make git run a program"
    )


CHANGES = {
    "config": lambda top: git(top, "config", "remote.x.url", "https://me:secret@x.example"),
    "order": lambda top: (top / ".git/config").write_text(
        "\n".join(reversed((top / ".git/config").read_text().splitlines()))
    ),
    "shorter": lambda top: git(top, "config", "--unset", "core.filemode"),
    "hook": lambda top: (top / ".git/hooks/pre-push").write_text("evil"),
    "commondir": lambda top: (top / ".git/commondir").write_text("../evil"),
    "worktree": lambda top: (top / ".git/config.worktree").write_text("[core]\nbare = false\n"),
    "module": lambda top: make(top / ".git/modules/a/b/config", "[core]\nfsmonitor = x\n"),
    "gone": lambda top: (top / ".git").rename(top / "elsewhere"),
    "moved": lambda top: ((top / ".git").rename(top / "there"),
                          (top / ".git").write_text("gitdir: there\n")),
}  # fmt: skip


def make(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True)
    (path.parent / "HEAD").write_text("")
    path.write_text(text)


@pytest.mark.parametrize("kind", CHANGES)
def test_whatever_changes_what_git_does_is_news(repository, tmp_path, kind):
    (repository / ".git/hooks").mkdir(exist_ok=True)
    snapshot_repository_config(repository, tmp_path / "store")
    assert changes_since_start(repository, tmp_path / "store") == ""
    git(repository, "commit", "-q", "--allow-empty", "-m", "work")
    assert changes_since_start(repository, tmp_path / "store") == "", "daily work is none"
    CHANGES[kind](repository)
    news = changes_since_start(repository, tmp_path / "store")
    assert news.startswith("since the session began, ")
    assert "secret" not in news
    snapshot_repository_config(repository, tmp_path / "store")
    assert changes_since_start(repository, tmp_path / "store") == news, "a session begins once"


def test_a_hook_in_the_folder_that_the_settings_name_is_news(repository, tmp_path):
    (repository / "mine").mkdir()
    git(repository, "config", "core.hooksPath", "mine")
    snapshot_repository_config(repository, tmp_path / "store")
    assert changes_since_start(repository, tmp_path / "store") == ""
    (repository / "mine/pre-push").write_text("evil")
    assert "pre-push" in changes_since_start(repository, tmp_path / "store")


def test_a_repository_that_was_not_there_is_news(tmp_path):
    work = tmp_path / "work"
    work.mkdir()
    snapshot_repository_config(work, tmp_path / "store")
    git(work, "init", "-q")
    assert changes_since_start(work, tmp_path / "store")
    assert changes_since_start(work, tmp_path / "no store")
