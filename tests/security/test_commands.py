"""What a script may run, as far as that is known before it runs."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.security.commands.effects import effects
from agentcli.security.commands.known_commands import is_read_only
from agentcli.security.commands.script import SimpleCommand
from agentcli.security.commands.shell_parse import parse_script
from agentcli.security.commands.shell_paths import Expander
from agentcli.security.commands.shell_words import tokens, without_quoted
from tests.security.corpus import NEVER_ALLOWED, NOT_READ_ONLY, READ_ONLY
from tests.security.scripts import MARKERS, make_script
from tests.tables import each_row


def words(text: str) -> list[tuple[str | None, ...]]:
    return [command.words for command in parse_script(text).commands]


@each_row("command", READ_ONLY)
def test_reading(command):
    assert is_read_only(command)


@each_row("command", [*NEVER_ALLOWED, *NOT_READ_ONLY])
def test_what_may_write_or_is_not_plain(command):
    assert not is_read_only(command)


@given(st.text())
def test_any_text_has_an_answer(text):
    assert is_read_only(text) in (True, False)


@each_row(
    "text, found",
    [
        ("a && b | c; d & e", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("(a; { b; })", [("a",), ("b",)]),
        ("if a; then b; elif c; then d; else e; fi", [("a",), ("b",), ("c",), ("d",), ("e",)]),
        ("a \"$(b '$(c)' `d`)\" <(e)", [("d",), ("b", "$(c)", None), ("e",), ("a", None, None)]),
        ("x=$(a) y=`b` c", [("a",), ("b",), ("c",)]),
        ("cat <<E\n$(a)\nE\nb", [("a",), ("cat",), ("b",)]),
        ("for x in $(a); do b; done", [("a",), ("b",)]),
        ("f() { a; }", [("a",)]),
        ("r''m \"a b\" $'c\\x64' e\\ f", [("rm", "a b", "cd", "e f")]),
        ("ls $x *.py {a,b} ~/x", [("ls", None, None, None, "~/x")]),
        ("sudo -u me env -u B A=1 nice -n 5 rm x", [("rm", "x")]),
        ("bash -c 'a; b'", [("a",), ("b",)]),
        ("eval 'a' b", [("a", "b")]),
        ("trap 'a' EXIT", [("a",)]),
        ("xargs -0 -n 1 rm -f", [("rm", "-f", None)]),
        (
            "find . -exec rm {} + -exec ls \\;",
            [("find", ".", "-exec", "rm", "{}", "+", "-exec", "ls", ";"), ("rm", None), ("ls",)],
        ),
    ],
)
def test_every_part_counts(text, found):
    assert words(text) == found


def test_what_stands_around_a_command_is_known():
    (command,) = parse_script("{ cd src && A=1 sudo -n env B=2 rm x 2>err; } >out").commands[1:]
    assert command.wrappers == ("sudo", "env")
    assert command.assignments == ("A", "B")
    assert command.cwd == "src"
    assert [(r.fd, r.operator, r.target) for r in command.redirects] == [
        ("2", ">", "err"),
        ("", ">", "out"),
    ]
    assert command.levels[0] == ("sudo", "-n", "env", "B=2", "rm", "x")
    *_, shell = parse_script("curl x | tee y | sh").commands
    assert shell.piped_from.words == ("tee", "y")
    assert shell.piped_from.piped_from.words == ("curl", "x")


@each_row(
    "text",
    [
        "python -c 'x'",
        "perl -e 1",
        "node -e 1",
        "ssh host ls",
        "bash",
        "bash -c $x",
        "eval $x",
        "source x",
        "$x",
        "alias a=b",
        "f() { :; }",
        "echo ${x@P}",
        "echo $((x))",
        "env -S 'a b'",
        "a '",
        "a\u00a0b",
        "a\0b",
        "a\rb",
        "l\\\ns",
        "time for x in a; do b; done",
    ],
)
def test_what_can_not_be_judged_whole_says_so(text):
    assert parse_script(text).unclear


@each_row(
    "text, doubt",
    [
        ("if ls", "its syntax is not understood"),
        ("ls $(", "its syntax is not understood"),
        ("{ ls", "its syntax is not understood"),
        ("ls\u200b", "it contains the character U+200B"),
        ("echo 'a\u202eb'", "it contains the character U+202E"),
        ("ls\x1b[2K", "it contains the character U+001B"),
        ("ls;\u3000rm", "it contains the character U+3000"),
        ("gi\\\nt", "a backslash at the end of a line joins words"),
        ("echo a\\ b ${x@P}; f() { :; }", "it evaluates the value of a variable"),
    ],
)
def test_the_reason_is_told(text, doubt):
    assert parse_script(text).unclear == doubt
    assert parse_script(text).doubts[0] == doubt


@pytest.fixture
def run_markers(tmp_path):
    """Run a script in a real bash in which m1, m2 and m3 write down how they were called."""
    programs, folder = tmp_path / "bin", tmp_path / "work"
    programs.mkdir()
    folder.mkdir()
    for name in MARKERS:
        program = programs / name
        program.write_text('#!/bin/bash\nprintf "%s\\0" "${0##*/}" "$@" END > "$CALLS/$$"\n')
        program.chmod(0o755)
    runs = itertools.count()

    def run(text: str) -> list[tuple[str, ...]]:
        # Of each run its own, for what bash doesn't wait for may write later.
        log = tmp_path / f"calls{next(runs)}"
        log.mkdir()
        script = tmp_path / "script"
        script.write_text(text)
        subprocess.run(
            ["timeout", "-s", "KILL", "10", "bash", "--noprofile", "--norc", str(script)],
            cwd=folder,
            env={"PATH": f"{programs}:{os.defpath}", "HOME": str(folder), "CALLS": str(log)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
        calls = [path.read_bytes().split(b"\0") for path in log.iterdir()]
        whole = [call[:-2] for call in calls if call[-2:] == [b"END", b""]]
        return [tuple(word.decode(errors="replace") for word in call) for call in whole]

    return run


def home_left_out(call: tuple[str | None, ...], home: str | None) -> tuple[str | None, ...]:
    return tuple(word for word in call if word != "~" and (home is None or word != home))


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(6))
def test_bash_runs_nothing_that_was_not_found(run_markers, tmp_path, seed):
    """Scripts of markers, many of them damaged, are run: each command that bash ran, with its very
    words where all are known, must be among those found before; else the script is unclear."""
    choices = random.Random(seed)
    clear = 0
    for _ in range(60):
        text = make_script(choices)
        script = parse_script(text)
        if script.unclear:
            continue
        clear += 1
        found = {home_left_out(c.words, None) for c in script.commands if c.words}
        exact = script.verified and all(None not in c.words for c in script.commands)
        for call in run_markers(text):
            if exact:
                assert home_left_out(call, str(tmp_path / "work")) in found, text
            else:
                assert call[0] in {words[0] for words in found} | {None}, text
    assert clear > 15


@each_row(
    "text", ["$0|" * 20_000, "rm -rf " + "{a," * 3_000, "a&&" * 10_000, "$(" * 5_000, "a;" * 10_000]
)
def test_what_is_made_to_be_slow_or_deep_is_read_or_refused(text):
    """Without the limits, minutes or a RecursionError."""
    script = parse_script(text)
    assert script.commands or script.unclear
    assert not is_read_only(text)


@each_row("opening", ["{", "[", "a{,"])
def test_very_many_openings_are_told_from_words_at_once(opening):
    text = opening * 50_000
    start = time.process_time()
    assert len(tokens(text) or ()) == 1
    assert without_quoted(text) == text
    assert time.process_time() - start < 5


def test_very_many_folders_of_a_search_are_judged_at_once():
    command = SimpleCommand(("find", *["a"] * 8_000, "-delete"), written="find")
    start = time.process_time()
    assert len(list(effects(command, Expander("/tmp", "/root")))) >= 8_000
    assert time.process_time() - start < 8
