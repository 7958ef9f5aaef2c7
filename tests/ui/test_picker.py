"""The list of sessions to choose from: what fits, how it moves, how it looks."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.ui.picker import ROWS, Choice, Selection, _pick_by_number, table
from agentcli.ui.style import cells, plain


def choice(title, session_id="20260101-000000-aaaa", **more):
    facts = {"age": "3 h ago", "state": "finished", "steps": 12, "cost_usd": 0.42, **more}
    return Choice(session_id=session_id, title=title, **facts)


CHOICES = [
    choice("fix the failing test", "20260103-000000-aaaa", age="2 min ago", state="interrupted"),
    choice("write the docs", "20260102-000000-bbbb", name="docs", steps=1, cost_usd=None),
    choice("find the text in src", "20260101-000000-cccc", pid=4711),
]


def titles(selection):
    return [choice.title for choice in selection.fitting]


def rows(lines):
    return [plain(line).rstrip() for line in lines]


def test_a_session_is_one_row():
    assert rows(table(CHOICES, 78)) == [
        "2 min ago  interrupted     12 steps  $0.42  fix the failing test",
        "  3 h ago  finished          1 step     $?  docs: write the docs",
        "  3 h ago  in use by 4711  12 steps  $0.42  find the text in src",
    ]


def test_the_folder_keeps_its_end_where_room_is_short():
    far = choice("a title that is long enough to be cut", folder="/home/someone/projects/agent")
    (row,) = rows(table([far], 70))
    assert row.endswith("a title that is …  …projects/agent")
    assert cells(row) == 70


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("test", ["fix the failing test"]),
        ("fit", ["fix the failing test", "find the text in src"]),
        ("TEST fix", ["fix the failing test"]),
        ("fxt", ["fix the failing test"]),
        ("docs", ["write the docs"]),
        ("0102", ["write the docs"]),
        ("nothing like it", []),
        ("(", []),
    ],
)
def test_typing_filters_by_name_title_and_id(typed, found):
    selection = Selection(CHOICES)
    selection.move(2)
    selection.search(typed)
    assert titles(selection) == found
    assert selection.marked == (selection.fitting[0] if found else None)


def test_what_holds_the_words_literally_comes_first():
    selection = Selection([choice("s r c"), choice("src")])
    selection.search("src")
    assert titles(selection) == ["src", "s r c"]


def test_the_mark_stays_on_the_list():
    selection = Selection(CHOICES)
    selection.move(-1)
    assert selection.marked is CHOICES[0]
    selection.move(99)
    assert selection.marked is CHOICES[2]
    selection.search("no such")
    selection.move(1)
    assert selection.marked is None
    assert rows(selection.lines(80)) == ["none fits · ↑ ↓ move · Enter resumes · Esc leaves"]
    selection.search("")
    assert selection.marked is CHOICES[0]


def test_a_long_list_shows_the_rows_around_the_mark():
    selection = Selection([choice(f"task {number}") for number in range(40)])
    assert rows(selection.lines(80))[-1].startswith("1-10 of 40 · ")
    selection.move(20)
    shown = rows(selection.lines(80))
    assert len(shown) == ROWS + 1
    assert next(row for row in shown if row.startswith("> ")).endswith("task 20")
    selection.move(99)
    assert rows(selection.lines(80))[-1].startswith("31-40 of 40 · ")


nasty = st.text(st.characters() | st.sampled_from("\x1b\r\n\t\x9b\u202e"), max_size=60)


@given(
    st.lists(st.builds(choice, nasty, name=nasty, folder=nasty), min_size=1, max_size=15),
    nasty,
    st.sampled_from([50, 80, 120]),
)
def test_no_row_is_wider_than_the_terminal_and_none_holds_an_escape(choices, typed, width):
    selection = Selection(choices)
    for query in ("", typed):
        selection.search(query)
        for line in selection.lines(width):
            assert cells(plain(line)) <= width
            assert not re.search(r"[\x00-\x1f\x7f-\x9f]", plain(line))


@pytest.mark.parametrize(
    ("typed", "chosen"), [("2\n", 1), ("x\n0\n9\n3\n", 2), ("\n", None), ("", None)]
)
def test_a_terminal_that_cannot_be_drawn_on_gets_numbers(typed, chosen):
    out = io.StringIO()
    picked = _pick_by_number(CHOICES, out, io.StringIO(typed), 80)
    assert picked is (None if chosen is None else CHOICES[chosen])
    assert "  2   3 h ago  finished" in out.getvalue()
    assert "\x1b" not in out.getvalue()
