"""What two runs of the same work differ by themselves in is equal, and nothing else is."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from agentcli.replay.compare import Normaliser

LENT = ["web/node_modules"]
THEN = Normaliser((), "s1", [], datetime(2026, 3, 1, 12, tzinfo=UTC), LENT)
NOW = Normaliser(
    [("/cache/copy", "/home/ann/work")],
    "s1",
    [],
    datetime(2026, 11, 23, 9, tzinfo=UTC),
    LENT,
)

SAME = {
    "places": ("at /home/ann/work/a.py", "at /cache/copy/a.py"),
    "the session": ("/home/ann/.local/sessions/s1/tmp/x", "/cache/scratch-1/sessions/s1/tmp/x"),
    "its folder for temporary files": ("/tmp/x", "/cache/scratch-1/sessions/s1/tmp/x"),
    "dates of the runs": ("2026-03-01T11:59:00Z done", "2026-11-23 09:00:01 done"),
    "times": ("12:00:01 ran in 0.12s", "09:30:59 ran in 3.4s"),
    "seconds since 1970": ("1772366400", "1795424400"),
    "process ids": ("pid 17", "pid 4711"),
    "ports": ("on 127.0.0.1:40001", "on 127.0.0.1:51234"),
    "addresses": ("<object at 0x7f00aa12>", "<object at 0x55d0c3d4e5f6>"),
    "temporary names": ("/tmp/tmp.Ab12Cd34Ef", "/tmp/tmp.Zz98Yy76Xx"),
    "long listings": (
        "total 9\n-rw-r--r-- 1 ann ann 5 Jan  2  2024 a\ndrwxr-xr-x 3 ann ann 4096 Mar  1 12:00 d",
        "total 8\n-rw-r--r-- 1 bob bob 5 Nov 23 09:00 a\ndrwxr-xr-x 2 bob bob 60 Nov 23 09:00 d",
    ),
    "what is lent": (
        "drwxr-xr-x 3 ann ann 4096 Mar  1 12:00 node_modules",
        "lrwxrwxrwx 1 ann ann 12 Nov 23 09:00 node_modules -> /home/ann/work/web/node_modules",
    ),
}
DIFFERENT = {
    "words": ("2 passed", "1 failed"),
    "order": ("a\nb", "b\na"),
    "another date": ("born 1990-02-03", "born 1990-02-04"),
    "a chosen port": ("on 127.0.0.1:8000", "on 127.0.0.1:8001"),
    "a neighbour of the place": ("/home/ann/worker", "/cache/copies"),
    "a size in a long listing": (
        "-rw-r--r-- 1 ann ann 5 Mar  1 12:00 a.py",
        "-rw-r--r-- 1 ann ann 6 Nov 23 09:00 a.py",
    ),
    "a mode in a long listing": (
        "-rw-r--r-- 1 ann ann 5 Mar  1 12:00 a.py",
        "-rwxr-xr-x 1 ann ann 5 Nov 23 09:00 a.py",
    ),
    "digests": ("d41d8cd98f00b204e9800998ecf8427e", "0cc175b9c0f1b6a831c399e269772661"),
}


@pytest.mark.parametrize("what", SAME)
def test_what_differs_by_itself_is_the_same(what):
    recorded, now = SAME[what]
    assert THEN.of_output(recorded) == NOW.of_output(now)


@pytest.mark.parametrize("what", DIFFERENT)
def test_all_else_is_not(what):
    recorded, now = DIFFERENT[what]
    assert THEN.of_output(recorded) != NOW.of_output(now)


def test_of_a_file_only_places_and_dates_of_the_run_differ_by_themselves():
    assert THEN.of_file("at 2026-03-01") == NOW.of_file("at 2026-11-23")
    assert THEN.of_file("timeout = 30s") != NOW.of_file("timeout = 60s")


GIT_SAYS = (
    "[main (root-commit) {0}] first",
    "[main {0}] second",
    "{0} first",
    "* {0} first",
    "| * {0} (HEAD -> main) first",
    "{0}",
    "{0}{0}{0}{0}",
    "^{0} (Ann 2026-03-01 11:59:00 +0000 1) text",
    "commit {0}{0}",
    "Merge: {0} {1}",
    "Updating {0}..{1}",
    "   {0}..{1}  main -> main",
    "HEAD is now at {0} first",
    "Deleted branch topic (was {0}).",
    "Dropped refs/stash@{{0}} ({0}{0})",
    "Saved working directory and index state WIP on main: {0} first",
    "* main {0} first",
    "v1.0-2-g{0}",
)


@pytest.mark.parametrize("said", GIT_SAYS)
def test_commits_differ_by_themselves_in_what_git_says(said):
    then, now = said.format("1a2b3c4", "5d6e7f8"), said.format("9f8e7d6", "0a1b2c3")
    now = now.replace("2026-03-01 11", "2026-11-23 09")
    assert THEN.of_output(then, of_git=True) == NOW.of_output(now, of_git=True)
    assert THEN.of_output(then) != NOW.of_output(now)


@pytest.mark.parametrize("shown", ["index 1a2b3c4..{0} 100644", "+{0} in a file", "at {0} there"])
def test_what_git_shows_of_files_does_not(shown):
    then, now = shown.format("5d6e7f8"), shown.format("0a1b2c3")
    assert THEN.of_output(then, of_git=True) != NOW.of_output(now, of_git=True)


def test_a_path_that_only_begins_like_a_place_is_another():
    assert NOW.of_file("/cache/copy, /cache/copy/a") == "/home/ann/work, /home/ann/work/a"
    assert NOW.of_file("/cache/copy-2 /cache/copy.old") == "/cache/copy-2 /cache/copy.old"


def test_patterns_of_the_person_count_too():
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    own = [re.compile("build-[0-9]+")]
    one, other = (Normaliser((), "s1", own, moment).of_file(f"build-{n} ok") for n in (7, 8))
    assert one == other
