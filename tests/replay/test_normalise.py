"""What two runs of the same work differ by themselves in is equal, and nothing else is."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from agentcli.replay.normalise import Normaliser

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


def test_commits_differ_by_themselves_in_what_git_says():
    then = "[main (root-commit) 1a2b3c4] first\n1a2b3c4 first\ncommit " + "1a" * 20
    now = "[main (root-commit) 9f8e7d6] first\n9f8e7d6 first\ncommit " + "9f" * 20
    assert THEN.of_output(then, of_git=True) == NOW.of_output(now, of_git=True)
    assert THEN.of_output(then) != NOW.of_output(now)


def test_patterns_of_the_person_count_too():
    moment = datetime(2026, 3, 1, tzinfo=UTC)
    own = [re.compile("build-[0-9]+")]
    one, other = (Normaliser((), "s1", own, moment).of_file(f"build-{n} ok") for n in (7, 8))
    assert one == other
