"""What is offered for a part of a line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcli.ui.prompt.completion import MentionIndex, PathIndex, fitting_commands, with_folders

PATHS = ["README.md", "docs/", "docs/model.md", "src/", "src/main_loop.py", "src/remodel.py"]
names = st.text(st.sampled_from("abc/_.Äß "), min_size=1, max_size=12)


def test_names_come_before_paths_and_letters_in_order_last():
    index = PathIndex(PATHS)
    assert index.best("model") == ["docs/model.md", "src/remodel.py"]
    assert index.best("mainl") == ["src/main_loop.py"]
    assert index.best("src/") == ["src/", "src/remodel.py", "src/main_loop.py"]
    assert index.best("mnlp") == ["src/main_loop.py"]
    assert index.best("zz") == []
    assert index.best("")[0] == "README.md"


@given(st.lists(names, max_size=30, unique=True), names)
def test_what_is_offered_fits_and_what_fits_is_offered(paths, typed):
    found = PathIndex(paths).best(typed)
    assert len(set(found)) == len(found)
    for path in paths:
        letters = iter(path.casefold())
        fits = all(letter in letters for letter in typed.casefold())
        assert (path in found) == fits


def test_folders_come_before_what_is_in_them():
    assert list(with_folders(["a/b/c", "a/d", "e"])) == ["a/", "a/b/", "a/b/c", "a/d", "e"]


def test_names_with_blanks_are_quoted_and_those_that_drive_a_terminal_left_out():
    index = MentionIndex(lambda: ["with blank.txt", "esc\x1b[2J.txt"], lambda: [])
    assert [each.text for each in index.fitting("t")] == ['@"with blank.txt" ']


def test_commands_that_begin_so_come_first():
    helps = {"compact": "c", "undo": "u", "model": "m", "mode": "o"}
    assert [each.text for each in fitting_commands("mo", helps)] == ["/model ", "/mode "]
    assert fitting_commands("o", helps)[0].text == "/compact "
