import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.ui.text import printable, resolve_carriage_returns

hostile = st.text(
    st.one_of(
        st.characters(),
        st.characters(max_codepoint=0x9F),
        st.sampled_from("\x1b\x9b\x9d\x07\x9c[]0;m\r\n\t\u202e\ud800"),
    )
)


@given(hostile, st.booleans(), st.booleans())
def test_no_control_character_comes_through(text, multiline, strict):
    shown = printable(text, multiline=multiline, strict=strict)
    allowed = "\n\t" if multiline else ""
    assert not [c for c in shown if unicodedata.category(c) in ("Cc", "Cs") and c not in allowed]
    shown.encode("utf-8")


@given(hostile)
def test_what_is_printable_stays_as_it_is(text):
    once = printable(text)
    assert printable(once) == once


@given(hostile)
def test_strict_text_is_all_visible(text):
    shown = printable(text, strict=True)
    assert all(c.isprintable() or c in "\n\t" for c in shown)


@given(st.text(st.characters(codec="ascii", categories=["L", "N", "P", "S", "Zs"])))
def test_strict_text_keeps_every_ordinary_character(text):
    assert printable(text, strict=True) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]52;c;cm0gLXJm\x1b\\text", "text"),
        ("\x1bPq#0\x1b\\text", "text"),
        ("\x1b[6n", ""),
        ("\x1b]0;never ends", "␛]0;never ends"),
        ("\x1b]0;not past\nthe line\x07", "␛]0;not past\nthe line␇"),
        ("\x1bc", "␛c"),
        ("a\x08b\x7f\x85", "a␈b␡<85>"),
        ("one\r\ntwo\rthree", "one\ntwo␍three"),
        ("\ud800", "\ufffd"),
        ("tab\tand\nline", "tab\tand\nline"),
        ("世界 café 👍🏽", "世界 café 👍🏽"),
    ],
)
def test_sequences_vanish_and_stray_controls_show(text, shown):
    assert printable(text) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls \x1b[8mrm -rf /\x1b[0m", "ls ␛[8mrm -rf /␛[0m"),
        ("a\u202eb", "a<U+202E>b"),
        ("a\u200bb\ufeff", "a<U+200B>b<U+FEFF>"),
        ("rm\u00a0-rf", "rm<U+00A0>-rf"),
        ("\u3164\u2800", "<U+3164><U+2800>"),
        ("\u2028", "<U+2028>"),
        ("\U000e0041", "<U+E0041>"),
    ],
)
def test_strict_hides_nothing(text, shown):
    assert printable(text, strict=True) == shown


def test_one_line():
    assert printable("a\nb\tc", multiline=False) == "a b c"
    assert printable("a\nb\tc", multiline=False, strict=True) == "a␊b␉c"


def test_a_progress_bar_settles_at_its_last_state():
    assert resolve_carriage_returns("10%\r50%\r100%\ndone\r\n") == "100%\ndone\n"
