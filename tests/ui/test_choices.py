"""Rows to choose one of: what fits, how they move, how they look."""

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.ui.choices import Choice, Preview, Selection, aligned, choice_row, preview_lines
from agentcli.ui.picker import Question, pick
from agentcli.ui.text import Span, cells, plain


def choice(title, hidden="20260101-000000-aaaa", **more):
    return Choice(title, title=title, hidden=hidden, **more)


CHOICES = [
    choice("fix the failing test", "20260103-000000-aaaa"),
    choice("write the docs", "20260102-000000-bbbb", name="docs", needs_message=True),
    choice("find the text in src", "20260101-000000-cccc"),
]
QUESTION = Question("which? ", "takes it", "sends it")


def titles(selection):
    return [choice.title for choice in selection.fitting]


def rows(lines):
    return [plain(line).rstrip() for line in lines]


def test_facts_stand_in_columns():
    facts = [("2 min ago", "interrupted", "12 steps"), ("3 h ago", "finished", "1 step")]
    lines = aligned([[Span(fact) for fact in each] for each in facts], right=(0, 2))
    shown = [choice_row(choice("x", facts=line), 78) for line in lines]
    assert rows(shown) == [
        "2 min ago  interrupted  12 steps  x",
        "  3 h ago  finished       1 step  x",
    ]


def test_the_place_keeps_its_end_where_room_is_short():
    facts = [Span("x" * 43 + "  ")]
    far = choice("a title that is long", facts=facts, place="/home/someone/projects/agent")
    shown = plain(choice_row(far, 70))
    assert shown.endswith("  a title that…  …cts/agent")
    assert cells(shown) <= 70


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
def test_typing_filters_by_all_that_is_known(typed, found):
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
    assert (selection.lines(80, 10), selection.position()) == ([], "no match")
    selection.search("")
    assert selection.marked is CHOICES[0]


def test_a_long_list_shows_the_rows_around_the_mark():
    selection = Selection([choice(f"task {number}") for number in range(40)])
    assert rows(selection.lines(80, 10))[0] == "> task 0"
    selection.move(20)
    shown = rows(selection.lines(80, 10))
    assert len(shown) == 10
    assert "> task 20" in shown
    selection.move(99)
    assert rows(selection.lines(80, 10))[-1] == "> task 39"
    assert selection.position() == "40 of 40"


def test_a_preview_leaves_room_for_the_last_word():
    shown = Preview("here", [("you", "one two three " * 20), ("agent", "done\n\nand tested")])
    assert rows(preview_lines(shown, 40, 6)) == [
        "here",
        "you    one two three one two three one",
        "       two three one two three one two …",
        "agent  done",
        "       and tested",
        "",
    ]


nasty = st.text(st.characters() | st.sampled_from("\x1b\r\n\t\x9b\u202e"), max_size=60)


@given(
    st.lists(st.builds(choice, nasty, name=nasty, place=nasty), min_size=1, max_size=15),
    nasty,
    st.sampled_from([20, 50, 80, 120]),
)
def test_nothing_is_wider_than_the_terminal_and_nothing_holds_an_escape(choices, typed, width):
    selection = Selection(choices)
    for query in ("", typed):
        selection.search(query)
        preview = preview_lines(Preview(typed, [("you", typed), ("agent", query)]), width, 8)
        assert len(preview) == 8
        for line in [*selection.lines(width, 20), *preview]:
            assert cells(plain(line)) <= width
            assert not re.search(r"[\x00-\x1f\x7f-\x9f]", plain(line))


@pytest.mark.parametrize(
    ("typed", "chosen", "message"),
    [
        ("2\ngo on\n", 1, "go on"),
        ("x\n0\n9\n3\n\n", 2, ""),
        ("2\n\n", None, ""),
        ("\n", None, ""),
        ("", None, ""),
    ],
)
def test_a_terminal_that_cannot_be_drawn_on_gets_numbers(typed, chosen, message, monkeypatch):
    out = io.StringIO()
    monkeypatch.setattr("sys.stderr", out)
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    picked = pick(QUESTION, CHOICES)
    if chosen is None:
        assert picked is None
    else:
        assert picked is not None
        assert (picked.value, picked.message) == (CHOICES[chosen].value, message)
    assert "  2 docs: write the docs" in out.getvalue()
    assert "\x1b" not in out.getvalue()
