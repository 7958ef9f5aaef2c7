"""Which commands certainly change nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.security.commands import is_read_only


@pytest.mark.parametrize(
    "command",
    [
        "true",
        "ls -la src tests",
        "cat README.md | head -20",
        "grep -rn 'def main' src 2>/dev/null | wc -l",
        "cd src && ls; pwd",
        "git status && git diff HEAD~1 -- src",
        "find . -name '*.py' -type f 2>&1",
        "rg --files",
        "sort -u names.txt",
    ],
)
def test_reading(command):
    assert is_read_only(command)


@pytest.mark.parametrize(
    "command",
    [
        "",
        "rm x",
        "echo hi > x",
        "echo hi >/dev/null > x",
        "echo hi 2>err",
        "cat <(rm x)",
        "cat $(rm x)",
        "cat `rm x`",
        "ls; rm x",
        "ls\nrm x",
        "ls & rm x",
        "ls && rm x",
        "ls | tee x",
        "ls |& tee x",
        "ls;;rm x",
        "x=1 ls",
        "find . -delete",
        "find . -exec rm {} +",
        "find . -fprintf x %p",
        "sort -o x x",
        "sort -uo x x",
        "sort --output=x x",
        "sort *",
        "rg --pre ./script x",
        "git diff --output=x",
        "git branch -D main",
        "git -c core.pager=x log",
        "git log --ext-diff",
        "env ls",
        "xargs rm",
        "sed -n 1p x",
        "python -V",
        "'ls' 'a",
        "ls \\\nrm",
        "sudo ls",
        "uniq a b",
    ],
)
def test_what_may_write_or_is_not_plain(command):
    assert not is_read_only(command)


@given(st.text())
def test_any_text_has_an_answer(text):
    assert is_read_only(text) in (True, False)
