"""What a question looks like, whatever is asked and pressed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentcli.ui.approval import ApprovalView, Question
from agentcli.ui.dialogues import ApprovalDialogue
from agentcli.ui.text import cells, exact_lines, plain

RULES = ("bash(git push origin main)", "bash(git push:*)")
KEYS = ["y", "s", "a", "e", "n", "t", "j", "k", "1", "3", "x", "ж", "\t"]
KEYS += ["up", "down", "pageup", "pagedown", "home", "end", "left", "c-h", "c-w", "c-u", "delete"]
KEYS += ["c-m", "escape", "<ignore>"]
pressed = st.lists(st.sampled_from(KEYS), max_size=12)


def dialogue(text: str = "git push", words: str = "") -> ApprovalDialogue:
    view = ApprovalView("command", exact_lines(text), "/w", ("reaches the network",), words)
    question = Question(view, "why", rules=RULES, offered=RULES[1], objection=lambda text: "no")
    return ApprovalDialogue(question)


@given(st.text(max_size=400), st.text(max_size=80), pressed, st.integers(40, 130))
def test_it_fits_the_screen_and_holds_nothing_that_a_terminal_acts_on(text, words, keys, width):
    asked = dialogue(text, words)
    for key in keys:
        if asked.press(key) is not None:
            break
    asked.paste(text)
    for height in (30, 23):
        shown = [plain(line) for line in asked.lines(width, height)]
        assert len(shown) <= height
        assert all(cells(row) <= width for row in shown)
        assert "".join(shown).isprintable()


@given(st.lists(st.one_of(st.text(min_size=1, max_size=9), st.just(None)), max_size=8))
def test_no_paste_and_no_enter_behind_one_says_yes(pasted):
    asked = dialogue()
    for text in pasted:
        answer = asked.press("c-m") if text is None else asked.paste(text)
        if answer is not None:
            assert not answer.allowed
            return


def test_the_row_after_the_last_is_never_scrolled_to():
    asked = dialogue("\n".join(f"step {n}" for n in range(50)))
    asked.lines(80, 23)
    for key in ("end", "pagedown", "j"):
        asked.press(key)
        shown = [plain(line) for line in asked.lines(80, 23)]
        assert "  │ step 49" in shown
