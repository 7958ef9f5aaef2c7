from __future__ import annotations

import os
import shutil
import subprocess
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentcli.workspace.walk import walk
from agentcli.workspace.wildcards import Glob, compile_wildcards, expand_braces


def files(top):
    return [found.path for found in walk(top) if not found.is_folder]


def make(top, *paths):
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text("text\n")


def test_a_folder_s_own_files_come_before_those_of_its_folders(tmp_path):
    make(tmp_path, "z", "a", "m/b", "m/a", ".hidden")
    assert files(tmp_path) == [".hidden", "a", "z", "m/a", "m/b"]


def test_ignored_folders_are_not_entered(tmp_path):
    make(tmp_path, "a.py", "build/out/x", "src/build/y", ".git/config")
    (tmp_path / ".gitignore").write_text("build/\n")
    assert files(tmp_path) == [".gitignore", "a.py"]


def test_ignore_files_of_inner_folders_have_the_last_word(tmp_path):
    make(tmp_path, "a.log", "src/b.log", "src/c.tmp")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / "src/.ignore").write_text("!b.log\n*.tmp\n")
    assert files(tmp_path) == [".gitignore", "src/.ignore", "src/b.log"]


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        (".git/info/exclude", ".gitignore"),
        (".gitignore", ".ignore"),
        (".git/info/exclude", ".ignore"),
    ],
)
def test_of_the_ignore_files_of_one_folder_one_has_the_last_word(tmp_path, weaker, stronger):
    make(tmp_path, "a", "b", ".git/info/exclude")
    (tmp_path / weaker).write_text("a\n!b\n")
    (tmp_path / stronger).write_text("!a\nb\n")
    assert [name for name in files(tmp_path) if not name.startswith(".")] == ["a"]


def test_the_rules_of_the_repository_hold_in_its_folders(tmp_path):
    make(tmp_path, "repo/.git/x", "repo/src/a.log", "repo/src/a.py", "repo/src/gen/x")
    (tmp_path / ".gitignore").write_text("*.py\n")
    (tmp_path / "repo/.gitignore").write_text("*.log\n/src/gen\n")
    assert files(tmp_path / "repo/src") == ["a.py"]


def test_an_ignored_folder_that_is_asked_for_is_walked(tmp_path):
    make(tmp_path, "build/out.log", "build/b/x")
    (tmp_path / ".gitignore").write_text("build/\n*.log\n")
    assert files(tmp_path / "build") == ["out.log", "b/x"]
    assert files(tmp_path / "build/b") == ["x"]


def test_links_to_folders_are_not_followed(tmp_path):
    make(tmp_path, "a/b")
    (tmp_path / "a/loop").symlink_to(tmp_path)
    assert files(tmp_path) == ["a/b", "a/loop"]


def test_a_special_file_as_ignore_file_rules_nothing(tmp_path):
    make(tmp_path, "a")
    os.mkfifo(tmp_path / ".gitignore")
    assert files(tmp_path) == [".gitignore", "a"]


NAMES = st.sampled_from(["a", "b", "foo", "bar.py", "x.log", "build", "src", "a b", "#x", "!y"])
LINES = st.sampled_from(
    r"""*.log|/build|build/|!foo.py|*|!*/|!*.py|src/*|!src/foo|**/foo|foo/**|a/**/b|/a|src/foo/
[ab]|[!a]*|?|fo*o.py|**/build/x.log|*.p?|!src/|/src/**/*.py|a/b|**|!**/|\#x|\!y|foo\ |a b |# c
**/a/**|!a/**|b*r.p*|*a*b*""".replace("\n", "|").split("|")
)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge here")
@settings(max_examples=40)
@given(
    paths=st.lists(st.lists(NAMES, min_size=1, max_size=4).map("/".join), min_size=1, max_size=20),
    lines=st.lists(LINES, min_size=1, max_size=6),
    inner=st.lists(LINES, max_size=3),
)
def test_it_ignores_what_git_ignores(tmp_path_factory, paths, lines, inner):
    top = tmp_path_factory.mktemp("repo")
    subprocess.run(["git", "init", "-q", top], check=True)
    for path in paths:
        if not any(part.is_file() for part in [top / path, *(top / path).parents]):
            (top / path).parent.mkdir(parents=True, exist_ok=True)
            if not (top / path).exists():
                (top / path).touch()
    (top / ".gitignore").write_text("\n".join(lines) + "\n")
    if (top / "src").is_dir():
        (top / "src/.gitignore").write_text("\n".join(inner))
    command = ["git", "ls-files", "-o", "-z", "--exclude-standard"]
    listed = subprocess.run(command, cwd=top, capture_output=True, check=True, text=True).stdout
    assert sorted(files(top)) == sorted(name for name in listed.split("\0") if name)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**/test_*.py", "test_a.py", True),
        ("**", "a/b", True),
        ("src/**", "src/a/b", True),
        ("src/**", "src", False),
        ("*.{ts,js}", "a/b.ts", True),
        ("{a,b{c,d}}/x", "bd/x", True),
        ("./src/a.py", "src/a.py", True),
        ("[a-c]?.txt", "bx.txt", True),
        ("[!a-c].txt", "b.txt", False),
        ("a[", "a[", True),
        ("!*.md", "a.py", True),
        ("!*.md", "a.md", False),
        ("a\\*b", "a*b", True),
        ("a\\*b", "axb", False),
    ],
)
def test_wildcards(pattern, path, matches):
    assert Glob(pattern).matches(path) is matches


def test_hostile_patterns_take_no_time():
    start = time.monotonic()
    assert not compile_wildcards("*a" * 50 + "b").fullmatch("a" * 255)
    assert not compile_wildcards("**/a/" * 50 + "b").fullmatch("a/" * 500)
    assert len(expand_braces("{a,b}" * 50)) <= 1000
    assert time.monotonic() - start < 1
