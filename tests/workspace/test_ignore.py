"""Ignore files exclude what git says; git itself is the judge here."""

from __future__ import annotations

import functools
import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agentcli.workspace.ignore import IgnoreFile, is_ignored, with_rules_of
from agentcli.workspace.opening import opened_folder
from agentcli.workspace.walk import walk

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge here")

PATTERNS = 5_000
WORDS = r"""a b c ab foo * ** ? / / / **/ /** ***/ \ \* \[ [ ] [] [a-c] [!a] [^b] [[:alpha:]]
[[:digit:]a] [![:upper:]] []a] [a-] [a [[:foo:]] [a/b] [\]] [b-a] ! # é 1 A . - [[:punct:]] [:a:]
[[:space:]] [[:a] {a,b} \/ $ ^ + ( | [\a-c] [a-\c] [--0] [!]a] [^-] [[:blank:][:cntrl:]] && ~~
[[:xdigit:]-g] [^[:graph:]]"""
PIECES = [*WORDS.split(), " ", "\\ ", "\t", "\r", "[ -~]"]
BEGINNINGS = ("", "", "", "!", "/")
ENDS = ("", "", "/", " ", "   ", "\r", "\\ ")
PLAIN = r"""a b c ab foo abc [ ] a[ [a] * ** é 1 A !a #a \ a\ - a.b {a,b} $ ^ + ( | aa xfoo foox []
a[] ~ a- b1 : [:a:] &&"""
NAMES = [*PLAIN.split(), "a b", "a ", " ", "\t"]
# Until October 2025, git let `**` follow plain text here.
LETS_VERSIONS_DIFFER = re.compile(r"!?/?[^*?\[\\]*[^/*?\[\\]\*\*+\\?/")


def git(*words: str, cwd: Path, given: bytes | None = None) -> bytes:
    return subprocess.run(
        ["git", *words], cwd=cwd, input=given, capture_output=True, check=False
    ).stdout


def ignored_by_git(top: Path, paths: list[str]) -> set[str]:
    asked = b"".join(os.fsencode(path) + b"\0" for path in paths)
    out = git("check-ignore", "--no-index", "-z", "--stdin", cwd=top, given=asked)
    return {os.fsdecode(path) for path in out.split(b"\0") if path}


def ignored_by_us(top: Path, paths: list[str]) -> set[str]:
    """Ask as a walk does: of each folder that leads to a path, then of the path."""

    @functools.cache
    def rules_in(folder: Path):
        above = rules_in(folder.parent) if folder != top else ()
        if not folder.is_dir():
            return above
        with opened_folder(folder) as handle:
            return with_rules_of(handle, folder, above, [each.name for each in folder.iterdir()])

    def is_out(path: str) -> bool:
        place = top
        for part in path.split("/"):
            rules, place = rules_in(place), place / part
            is_folder = place != top / path or place.is_dir()
            if is_ignored(f"{place}", is_folder, rules):
                return True
        return False

    return set(filter(is_out, paths))


@pytest.fixture
def top(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    top = tmp_path.resolve() / "top"
    (tmp_path / "home").mkdir()
    top.mkdir()
    git("init", "-q", cwd=top)
    return top


def random_line(chance: random.Random) -> str:
    while True:
        pieces = "".join(chance.choice(PIECES) for _ in range(chance.randint(1, 6)))
        line = chance.choice(BEGINNINGS) + pieces + chance.choice(ENDS)
        if not LETS_VERSIONS_DIFFER.match(line):
            return line


@needs_git
def test_random_patterns_ignore_what_they_ignore_for_git(top):
    chance = random.Random(30)
    paths, lines = [], 0
    while lines < PATTERNS:
        folder = top / f"d{len(paths)}"
        folder.mkdir()
        count = chance.randint(1, 4)
        some = [random_line(chance) for _ in range(count)]
        (folder / ".gitignore").write_bytes("\n".join(some).encode())
        lines += count
        for _ in range(20):
            names = [chance.choice(NAMES) for _ in range(chance.randint(1, 4))]
            paths.append(f"{folder.name}/{'/'.join(names)}")
    theirs = ignored_by_git(top, paths)
    differing = sorted(ignored_by_us(top, paths) ^ theirs)
    told = [(path, (top / path.split("/")[0] / ".gitignore").read_bytes()) for path in differing]
    assert not told
    assert 1_000 < len(theirs) < len(paths) - 1_000


@needs_git
def test_all_ignore_files_count_in_the_order_of_git(top, tmp_path):
    (top / "in/deep").mkdir(parents=True)
    (tmp_path / "home/all").write_text("a\nb\nc\nd\n")
    git("config", "--global", "core.excludesFile", "~/all", cwd=top)
    (top / ".git/info/exclude").write_text("!b\ne\nf\n!in\n")
    (top / ".gitignore").write_text("!c\n!e\ng\n")
    (top / "in/.gitignore").write_text("!d\n!g\nh\n!/deep/h\n")
    names = "abcdefgh"
    paths = [f"{folder}{name}" for folder in ("", "in/", "in/deep/") for name in names]
    theirs = ignored_by_git(top, paths)
    assert ignored_by_us(top, paths) == theirs
    assert {"a", "d", "f", "g", "in/a", "in/h"} <= theirs


@needs_git
@pytest.mark.parametrize(
    ("place", "setting"),
    [
        (".config/git/ignore", None),
        ("there/git/ignore", None),
        ("x", "~/x"),
        (None, ""),
        ("../top/x", "x"),
    ],
)
def test_the_file_of_the_user_is_found(top, tmp_path, monkeypatch, place, setting):
    home = tmp_path / "home"
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("other\n")
    if place == "there/git/ignore":
        monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "there"))
    if place:
        (home / place).parent.mkdir(parents=True, exist_ok=True)
        (home / place).write_text("named\n")
    if setting is not None:
        git("config", "core.excludesFile", setting, cwd=top)
    paths = ["named", "other"]
    theirs = ignored_by_git(top, paths)
    assert theirs == ({"named"} if place else set())
    assert ignored_by_us(top, paths) == theirs


@needs_git
def test_a_worktree_has_the_excludes_of_its_repository(top):
    git("-c", "user.name=a", "-c", "user.email=a@a", "commit", "-qm", "x", "--allow-empty", cwd=top)
    git("worktree", "add", "-q", "../side", cwd=top)
    side = top.parent / "side"
    (top / ".git/info/exclude").write_text("*.out\n")
    (side / "a.out").touch()
    (side / "a").touch()
    assert ignored_by_git(side, ["a.out", "a"]) == {"a.out"}
    assert [found.path for found in walk(side)] == ["a"]


@needs_git
def test_letters_fold_where_git_s_settings_say_so(top):
    git("config", "core.ignoreCase", "true", cwd=top)
    (top / ".gitignore").write_text("Build\n*.LOG\nÉ\n/src/[A-C]\n")
    paths = ["build", "BUILD", "a.log", "é", "É", "src/a", "SRC/B", "src/d"]
    assert ignored_by_us(top, paths) == ignored_by_git(top, paths)


@needs_git
def test_a_repository_inside_another_has_rules_of_its_own(top):
    inner = top / "inner"
    inner.mkdir()
    git("init", "-q", cwd=inner)
    (top / ".gitignore").write_text("*.log\n")
    (inner / "a.log").touch()
    (top / "a.log").touch()
    assert ignored_by_git(inner, ["a.log"]) == set()
    assert [found.path for found in walk(top)] == [".gitignore", "inner", "inner/a.log"]


@needs_git
def test_a_large_ignore_file_counts_as_a_whole(top):
    lines = [f"name{number}" for number in range(50_000)] + ["*.last\n"]
    (top / ".gitignore").write_text("\n".join(lines))
    assert (top / ".gitignore").stat().st_size > 400_000
    paths = ["name0", "name49999", "a.last", "name50000"]
    assert ignored_by_git(top, paths) == set(paths[:3])
    assert ignored_by_us(top, paths) == set(paths[:3])


@pytest.mark.parametrize(
    ("data", "path", "ignored"),
    [
        (b"\xef\xbb\xbfa\n", "a", True),
        (b"a\\  \n", "a ", True),
        (b"a\\\\  \n", "a\\", True),
        (b"a  \r\n", "a", True),
        (b"a\0b\n", "a", True),
        ("é\n".encode(), "é", True),
        (b"??\n", "é", True),
        (b"\xe9\n", "\udce9", True),
        (b"a**/b\n", "ax/y/b", True),
        (b"a//b\n", "a/b", False),
        (b"a//\n", "a", False),
        (b"a\\\n", "a\\", False),
        (b"a[]\n", "a[]", False),
        (b"[[:alpha:]\n", "a", False),
    ],
)
def test_details_of_lines(data, path, ignored):
    """https://github.com/git/git/blob/v2.39.5/dir.c, from add_patterns_from_buffer on."""
    assert bool(IgnoreFile(data, 0, of_git=True).verdict(path, True)) is ignored
