"""Copies of a repository, and what was done to one as a patch that others can take."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.git.mirrors import (
    CloneFailed,
    WatchedTree,
    check_out,
    commits_of,
    mirror,
    without_login,
)
from tests.conftest import git

GIT = shutil.which("git") or ""


def commit(repository: Path) -> str:
    git(repository, "add", "-Af")
    git(repository, "commit", "-qm", "more")
    return git(repository, "rev-parse", "HEAD").strip()


def copied(repository: Path, commit: str, tmp_path: Path) -> tuple[Path, WatchedTree]:
    copy = tmp_path / "copy"
    mirror(GIT, str(repository), tmp_path / "kept.git", {})
    check_out(GIT, tmp_path / "kept.git", commit, copy)
    watched = WatchedTree(GIT, tmp_path / "watched", copy)
    watched.begin(tmp_path / "kept.git", commit)
    return copy, watched


def test_nothing_done_is_no_patch_whatever_is_ignored_or_a_submodule(repository, tmp_path):
    (repository / ".gitignore").write_text("*.lock\n")
    (repository / "kept.lock").write_text("one\n")
    start = commit(repository)
    git(repository, "update-index", "--add", "--cacheinfo", f"160000,{start},module")
    git(repository, "commit", "-qm", "a submodule")
    start = git(repository, "rev-parse", "HEAD").strip()
    copy, watched = copied(repository, start, tmp_path)
    assert watched.patch(start, watched.tree()) == b""
    (copy / "kept.lock").write_text("two\n")
    (copy / "new.lock").write_text("left out\n")
    patch = watched.patch(start, watched.tree())
    assert (b"+two" in patch, b"new.lock" in patch, b"module" in patch) == (True, False, False)


def test_files_in_any_encoding_are_in_a_patch_that_is_utf_8(repository, tmp_path):
    old = ["latin.txt", 'odd "*[name]\\\n.txt', "link", "moved.txt", "same.txt"]
    for name in old:
        (repository / name).write_bytes(b"caf\xe9\n" + b"line\n" * 20)
    start = commit(repository)
    copy, watched = copied(repository, start, tmp_path)
    for name in old[:2]:
        (copy / name).write_bytes(b"th\xe9\n")
    (copy / "link").unlink()
    (copy / "link").symlink_to("same.txt")
    (copy / "moved.txt").rename(copy / "to.txt")
    (copy / "plain.txt").write_text("as ever: é\n")
    patch = watched.patch(start, watched.tree())
    assert "+as ever: é\n" in patch.decode()
    subprocess.run(["git", "apply"], input=patch, cwd=repository, check=True)
    for path in [*copy.iterdir()]:
        if path.name != ".git":
            assert (repository / path.name).read_bytes() == path.read_bytes()
    assert not (repository / "moved.txt").exists()
    assert (repository / "link").is_symlink()


def test_an_address_is_kept_nowhere_and_a_failure_tells_its_reason(repository, tmp_path):
    kept = tmp_path / "kept.git"
    mirror(GIT, repository.as_uri(), kept, {})
    assert not any(b"file://" in path.read_bytes() for path in kept.rglob("*") if path.is_file())
    (repository / "newer.txt").write_text("newer\n")
    newer = commit(repository)
    mirror(GIT, repository.as_uri(), kept, {})
    assert commits_of(GIT, kept, [newer]) == {newer: newer}
    with pytest.raises(CloneFailed, match=r"^fatal: .* does not appear"):
        mirror(GIT, f"file://{tmp_path}/gone", tmp_path / "new.git", {"PATH": os.defpath})
    assert without_login("https://me:secret@host/x@y.git") == "https://***@host/x@y.git"
    assert without_login("git@host:x.git") == "git@host:x.git"
