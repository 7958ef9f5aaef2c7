"""git's settings are read here as git reads them, and what is written git reads as it was meant."""

from __future__ import annotations

import subprocess
import time

from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.git.config import (
    Setting,
    adds_only_harmless,
    is_harmless,
    parse,
    sanitize_config,
    settings_text,
)

PIECES = [
    *("[core]", '[remote "a b"]', '[remote "a\\"\\\\]"]', "[branch.sub]", "[Core]", '[a"b"]', "[x"),
    *(
        "\n",
        " ",
        "\t",
        "\r\n",
        "\r",
        "=",
        "#",
        ";",
        '"',
        "\\",
        "\\\n",
        "\\n",
        "\\t",
        "\\x",
        "]",
        "[",
    ),
    *(
        "fsmonitor",
        "hooksPath",
        "bare",
        "true",
        "a-1",
        "é",
        "1",
        "value  with  spaces",
        "\x0b",
        ".",
    ),
    *("fsmonitor = x", "\n[core]\n\tbare = true\n", "\nurl=y\n", "\0"),
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=14).map("".join)
VALUES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
NAMES = st.sampled_from(
    ["core.bare", "remote.o.url", "branch.a.b.merge", 'x.q"\\.y', "user.name", "core.fsmonitor"]
)


def as_git_reads(data: bytes) -> list[Setting] | None:
    done = subprocess.run(
        ["git", "config", "--file", "-", "--list", "-z", "--no-includes"],
        input=data,
        capture_output=True,
    )
    if done.returncode:
        return None
    entries = done.stdout.decode(errors="surrogateescape").split("\0")[:-1]
    found = []
    for entry in entries:
        name, newline, value = entry.partition("\n")
        found.append(Setting(name, value if newline else None))
    return found


@given(TEXTS)
@example('[core]\n\tbare = "\\')
def test_files_are_read_as_git_reads_them(text):
    """Or more strictly: never is a setting overlooked."""
    data = text.encode()
    ours, theirs = parse(data), as_git_reads(data)
    assert ours is None or ours == theirs


@given(st.lists(st.builds(Setting, NAMES, VALUES), max_size=6))
def test_what_is_written_is_read_the_same(settings):
    assert as_git_reads(settings_text(settings).encode()) == settings


@given(TEXTS)
def test_what_is_reduced_holds_nothing_with_power(text):
    data = text.encode()
    less = sanitize_config(data)
    left = as_git_reads(data if less is None else less.text)
    assert left is not None
    assert all(is_harmless(setting) for setting in left)


@given(st.lists(st.builds(Setting, NAMES, VALUES), max_size=6), VALUES)
def test_what_has_power_neither_comes_nor_goes(settings, value):
    power = Setting("core.fsmonitor", f"/{value}")
    assert not adds_only_harmless(settings, [*settings, power])
    assert not adds_only_harmless([*settings, power], settings)
    assert adds_only_harmless(settings, [*settings, Setting("gc.auto", value)])


def test_where_work_is_sent_stays():
    mine = [Setting("remote.origin.url", "https://example.org/x")]
    other = Setting("remote.origin.url", "https://example.net/x")
    new = Setting("remote.new.url", "https://example.net/x")
    assert not adds_only_harmless(mine, [other])
    assert not adds_only_harmless(mine, [*mine, other])
    assert not adds_only_harmless(mine, [*mine, Setting("url.https://e/.insteadof", "https://")])
    assert not adds_only_harmless(mine, [*mine, Setting("remote.new.url", "ext::sh -c id")])
    assert adds_only_harmless(mine, [*mine, new])
    assert not adds_only_harmless([*mine, new], mine)
    branch = Setting("branch.topic.remote", "origin")
    assert adds_only_harmless([*mine, branch], mine)


def test_a_value_of_very_many_words_is_read_at_once():
    words = b"a " * 250_000
    start = time.process_time()
    found = parse(b"[core]\nx = " + words)
    assert found == [Setting("core.x", words.decode().strip())]
    assert time.process_time() - start < 5
