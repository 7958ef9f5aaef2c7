"""git's settings are read here as git reads them, what is written git reads as it was meant, and
what commands may change in them is let in."""

from __future__ import annotations

import os
import subprocess
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agentcli.git import config
from agentcli.git.config import (
    Setting,
    adds_only_harmless,
    is_harmless,
    let_in,
    parse,
    refused_settings,
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


MINE = b"""[core]
\trepositoryformatversion = 0
\thooksPath = hooks
[remote "origin"]
\turl = https://example.org/x
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[submodule "part"]
\turl = https://example.org/part
"""
TRACKS = b'[branch "topic"]\n\tremote = origin\n\tmerge = refs/heads/topic\n'
LET_IN = (
    MINE + TRACKS,
    MINE + TRACKS.replace(b"topic", b'a.b \\"c\\\\]'),
    MINE.replace(b'"main"', b'"renamed"'),
    MINE[: MINE.index(b"[branch")],
    MINE + b"\tactive = true\n\tupdate = checkout\n",
    MINE + b"[user]\n\tname = M\xc3\xa9 \n\temail = me@example.org\n\tuseConfigOnly = true\n",
    MINE + b"[core]\n\tsparseCheckout = true\n\tsparseCheckoutCone = false\n",
    MINE + b'[remote "mine"]\n\turl = git@example.org:x\n\tfetch = +refs/heads/*:refs/mine/*\n',
    MINE + b'[branch "topic"]\n\tdescription = " a = b # c"\n',
)
EVIL = b"[core]\n\tfsmonitor = ./payload\n"
REFUSED = (
    *(MINE + EVIL, EVIL, b"\xef\xbb\xbf" + MINE + EVIL, MINE + EVIL.replace(b"\n", b"\r\n")),
    *(MINE + EVIL.upper(), MINE + b'[core "x"]\n[core] fsmonitor = ./payload\n', b"", b"\n"),
    *(MINE.replace(b"hooks", b"other"), MINE.replace(b"\thooksPath = hooks\n", b"")),
    *(MINE + b"[include]\n\tpath = x\n", MINE + b'[includeIf "gitdir:**"]\n\tpath = x\n'),
    *(MINE + b"[alias]\n\tst = !id\n", MINE + b'[filter "x"]\n\tclean = id\n'),
    *(MINE + b'[diff "x"]\n\ttextconv = id\n', MINE + b'[url "x"]\n\tinsteadOf = https://\n'),
    *(MINE + b"\tupdate = !id\n", MINE + b"\turl = ext::id\n"),
    *(MINE.replace(b"org/x", b"net/x"), MINE.replace(b"org/part", b"net/part")),
    MINE.replace(b"remote = origin", b"remote = ./evil"),
    MINE + b'[branch "x"]\n\tremote = ./evil\n',
    MINE + b'[branch "x"]\n\tremote = origin\n\tmerge = "a\\n[core]\\n\\tfsmonitor = x"\n',
    MINE + b'[branch "x"]\n\tremote = origin\n\tmerge = a\\\n\tb\n',
    MINE + b'[branch "x\x7f"]\n\tremote = origin\n',
    MINE + b'[branch "x"] [user]\n\tname = x\n',
    MINE + b"[user]\n\tname = " + b"x" * 1_000 + b"\n",
    *(
        MINE + b"[user]\n\tname = x\r\n",
        MINE + b"[user]\r\tname = x\n",
        MINE + b"[user]\n\tname = x\0\n",
        MINE + b"[user]\n\tname=x\n",
    ),
    *(MINE + b"[user]\n\tname = x", MINE + b"[user\n", MINE + b"; [user]\n"),
    *(MINE + b"[extensions]\n\tworktreeConfig = true\n", MINE + b"[core]\n\tbare = true\n"),
    MINE + b"[core]\n\tworktree = x\n",
    MINE + b"[extensions]\n\tpartialClone = origin\n",
    MINE.replace(b"\tfetch", b"\tpromisor = true\n\tfetch"),
    MINE.replace(b"Version = 0", b"Version = 1").replace(b"version = 0", b"version = 1"),
)


@pytest.mark.parametrize("text", LET_IN)
def test_what_daily_work_changes_is_let_in(text):
    assert refused_settings(MINE, MINE, text) == ()
    assert refused_settings(MINE, text, MINE) == ()


@pytest.mark.parametrize("text", REFUSED)
def test_all_else_is_refused(text):
    assert refused_settings(MINE, MINE, text)
    assert refused_settings(MINE, MINE + TRACKS, text)


@given(TEXTS, st.sampled_from([MINE, MINE + TRACKS]))
def test_no_text_gives_git_more_power(text, old):
    new = old + text.encode()
    if not refused_settings(MINE, old, new):
        settings = as_git_reads(new)
        assert settings == parse(new)
        names = ("core.fsmonitor", "core.hookspath", "core.bare", "remote.a b.url")
        assert [s for s in settings if s.name in names] == [("core.hookspath", "hooks")]


def test_what_was_removed_does_not_come_back_as_something_else():
    less = MINE.replace(b'[branch "main"]\n\tremote = origin\n', b'[branch "main"]\n')
    other = less.replace(b"[sub", b'[remote "x"]\n\turl = ./x\n[branch "main"]\n\tremote = x\n[sub')
    assert refused_settings(MINE, MINE, less) == ()
    assert "branch.main.remote" in refused_settings(MINE, less, other)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "config").write_bytes(MINE)
    handle = os.open(tmp_path, os.O_RDONLY)
    yield handle
    os.close(handle)


@pytest.mark.parametrize("text", [MINE + TRACKS, MINE.replace(b"main", b"a"), *REFUSED[:1]])
def test_the_file_stays_the_same_one(tmp_path, folder, text):
    """A mount covers that file, not its name."""
    config, lock = tmp_path / "config", tmp_path / "config.lock"
    before = config.stat().st_ino
    lock.write_bytes(text)
    is_refused = bool(let_in(folder, "config", MINE))
    assert config.stat().st_ino == before
    assert config.read_bytes() == (MINE if is_refused else text)
    assert lock.exists() == is_refused


def test_nothing_but_a_lock_file_is_taken(tmp_path, folder):
    (tmp_path / "text").write_bytes(MINE + TRACKS)
    lock = tmp_path / "config.lock"
    makers = (
        lambda: lock.symlink_to("text"),
        lambda: os.mkfifo(lock),
        lock.mkdir,
        lambda: lock.write_bytes(MINE + TRACKS + b"#" * 300_000),
    )
    for make in makers:
        make()
        with pytest.raises(OSError, match=r"."):
            let_in(folder, "config", MINE)
        lock.rmdir() if lock.is_dir() else lock.unlink()
    assert (tmp_path / "config").read_bytes() == MINE


def test_whoever_reads_the_old_text_is_not_disturbed(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(config, "_PATIENCE_S", 0)
    lock = tmp_path / "config.lock"
    lock.write_bytes(MINE + TRACKS)
    with (tmp_path / "config").open("rb") as reader:
        with pytest.raises(BlockingIOError):
            let_in(folder, "config", MINE)
        assert reader.read() == MINE
    assert let_in(folder, "config", MINE) == ()


def test_a_full_disk_leaves_what_was_there(tmp_path, folder, monkeypatch):
    lock = tmp_path / "config.lock"
    lock.write_bytes(MINE + TRACKS)
    write = os.pwrite
    sizes = iter([10, len(MINE)])
    monkeypatch.setattr(os, "pwrite", lambda file, data, at: write(file, data[: next(sizes)], at))
    with pytest.raises(OSError, match="No space"):
        let_in(folder, "config", MINE)
    assert (tmp_path / "config").read_bytes() == MINE
    assert lock.exists()
