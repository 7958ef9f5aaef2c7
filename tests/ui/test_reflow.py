"""Where the prompt's cursor is when a window became narrower, at terminals that break long rows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.data_structures import Point
from prompt_toolkit.layout.screen import Char, Screen

from agentcli.ui.prompt.output import after_reflow, reflows


def screen_of(rows: list[str]) -> Screen:
    screen = Screen()
    for y, row in enumerate(rows):
        for x, char in enumerate(row):
            screen.data_buffer[y][x] = Char(char, "")
    return screen


def test_rows_above_count_as_often_as_they_are_broken():
    screen = screen_of(["x" * 25, "", "> abc"])
    assert after_reflow(screen, Point(x=5, y=2), 10) == Point(x=5, y=4)
    assert after_reflow(screen, Point(x=5, y=2), 80) == Point(x=5, y=2)
    assert after_reflow(screen, Point(x=25, y=0), 10) == Point(x=5, y=2)


@given(st.lists(st.text("ab ", max_size=30), min_size=1, max_size=6), st.integers(3, 40))
def test_it_is_as_many_rows_down_as_a_terminal_makes(rows, columns):
    broken = sum(-(-len(row.rstrip()) // columns) or 1 for row in rows[:-1])
    found = after_reflow(screen_of(rows), Point(x=0, y=len(rows) - 1), columns)
    assert found == Point(x=0, y=broken)


def test_in_doubt_a_terminal_breaks_nothing():
    assert reflows({"TMUX": "/tmp/tmux-0/default,1,0"})
    assert reflows({"TERM_PROGRAM": "WezTerm"})
    assert not reflows({"TERM": "xterm-256color"})
    assert not reflows({"TERM": "xterm", "XTERM_VERSION": "XTerm(390)"})
