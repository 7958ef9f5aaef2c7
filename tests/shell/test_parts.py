"""Marked command lines do in bash what they do unmarked."""

from __future__ import annotations

import subprocess
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agentcli.shell.bash_lines import ended_parts, head_share, parts_of, with_marks

PIECES = st.sampled_from(
    [
        *("true", "false", "echo a", "echo $?", "(exit 3)", "echo 'x; y'", 'echo "$HOME;\n b"'),
        *(";", "; ", "\n", " && ", " || ", " | cat", " # note; more", " &", "\\\n", " 2>&1"),
        *(
            "echo $_",
            "echo ${PIPESTATUS[0]}",
            "if true; then",
            "fi",
            "{",
            "}",
            "`false`",
            "$(",
            ")",
        ),
        *(
            ")",
            "<<E",
            "x=1",
            "echo ${x}",
            "set -e",
            "[[ a ]]",
            "cat <<< b",
            "echo a{1,2};",
            "! true",
        ),
        *("E\n", "echo \\;", "!", ">", "exit 2", "echo #a;b", "echo a#b", "case a in a) ;; esac"),
    ]
)


def run(command: str) -> tuple[int, bytes]:
    with TemporaryDirectory() as folder:
        done = subprocess.run(
            ["bash", "-c", command],
            input=b"",
            capture_output=True,
            env={"HOME": "/h", "PATH": "/bin"},
            cwd=folder,
        )
    return done.returncode, done.stdout


@given(st.lists(PIECES, min_size=2, max_size=7).map("".join))
@example("echo \\;;true")
@example("echo a\\ ;true")
@example("E\n\\\n")
@settings(max_examples=300)
def test_marks_change_nothing(command):
    if parts := parts_of(command):
        assert "".join(parts) == command
        assert run(with_marks(parts)) == run(command)


@pytest.mark.parametrize(
    "command",
    [
        "make",
        "cat > x <<'E'\na; b\nE\nls",
        "for i in 1 2; do ls; done; ls",
        "echo `a; b`; ls",
        "echo $(a; b); ls",
        "a & b; c",
        "set -e; a; b",
        "a;; b",
        "a # b; c\nd",
    ],
)
def test_what_is_not_plain_runs_as_it_is(command):
    assert not parts_of(command)


@pytest.mark.parametrize(
    ("command", "prints"),
    [
        ("cat a.py", True),
        ("cd x && sed -n '1,400p' a.py", True),
        ("git show HEAD:a.py", True),
        ("pytest; cat log", True),
        ("cat a | sort", False),
        ("pytest -q", False),
        ("grep -rn cat .", False),
        ("git status", False),
    ],
)
def test_what_prints_source_is_known(command, prints):
    assert head_share(command) == (0.75 if prints else 0.5)


def test_the_parts_that_ended_are_told():
    parts = parts_of("cd a && make; pytest -q | tail\nls 'x; y';\necho $?\nsleep 9")
    assert ended_parts(parts, " 0:0 1:1 3:0 9:9") == [
        ("cd a && make", 0),
        ("pytest -q | tail", 1),
        ("echo $?", 0),
    ]
    assert "2:$?" not in with_marks(parts)
