"""Make untrusted text safe for terminals: everything from models, tools, files and errors goes
through here."""

from __future__ import annotations

import re
import sys
import textwrap
from typing import TextIO

_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that a terminal could act on, that change the visible order of the text after them,
or that can't be encoded."""

_COLOUR_OR_CURSOR = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]")
_TERMINAL_STRING = re.compile(
    r"(?:\x1b[\]P_^X]|[\x9d\x90\x9f\x9e\x98])[^\x07\x1b\x80-\x9f\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
)
"""OSC, DCS, APC, PM and SOS sequences. One that does not end on its line is shown as text."""

_UNSEEN_LETTERS = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
"""Characters that count as printable but are invisible."""


def say(text: str, to: TextIO | None = None) -> None:
    """Print text that may have untrusted parts, by default on stdout, for people and for pipes."""
    print(printable(text), file=to or sys.stdout, flush=True)


def say_note(text: str) -> None:
    """Print a note of the agent on stderr."""
    say(f"agent: {text}", sys.stderr)


def printable(text: str, *, multiline: bool = True, strict: bool = False) -> str:
    """Return `text` with nothing in it that a terminal acts on, except newlines and tabs.

    Complete escape sequences are removed, as a terminal would not show them either; other control
    characters, and those that reverse the order of text, become visible (`␛`, `␈`, `<U+202E>`).
    With `strict`, for text that the user has to decide on, nothing is removed: sequences,
    bidirectional controls, zero-width and unusual blank characters all become visible.
    Without `multiline` the result has no newlines and tabs either.
    """
    if not text.isprintable():
        text = text.replace("\r\n", "\n")
        if not strict and ("\x1b" in text or _UNSAFE.search(text)):
            text = _COLOUR_OR_CURSOR.sub("", _TERMINAL_STRING.sub("", text))
        text = _UNSAFE.sub(_picture, text)
    if strict:
        text = "".join(map(_visible, _UNSEEN_LETTERS.sub(codepoint, text)))
    if not multiline:
        text = text.replace("\n", "␊" if strict else " ").replace("\t", "␉" if strict else " ")
    return text


def escaped_in_json(text: str) -> str:
    """Return JSON that means the same, with nothing in it that a terminal acts on."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def pasted_text(text: str, *, multiline: bool = True) -> str:
    """Return pasted text as `printable` does; terminals send carriage returns for its newlines."""
    return printable(text.replace("\r\n", "\n").replace("\r", "\n"), multiline=multiline)


def folded(text: str, width: int, indent: int | None = None) -> str:
    """Return `text` with rows that are too long for `width` columns going on in the next, at the
    column `indent`, by default at their own indentation. Words that are too long stay whole, so
    that they can be copied."""
    rows = []
    for row in text.split("\n"):
        own = len(row) - len(row.lstrip())
        if len(row) > width:
            row = textwrap.fill(
                row,
                width,
                subsequent_indent=" " * (own if indent is None else indent),
                break_long_words=False,
                break_on_hyphens=False,
            )
        rows.append(row)
    return "\n".join(rows)


def _picture(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if code < 0xA0:
        return f"<{code:02X}>"
    return codepoint(match) if code < 0xD800 else "\ufffd"


def codepoint(match: re.Match[str]) -> str:
    """Return a character's code point, such as `<U+202E>`."""
    return f"<U+{ord(match.group()):04X}>"


def _visible(char: str) -> str:
    return char if char.isprintable() or char in "\n\t" else f"<U+{ord(char):04X}>"


def resolve_carriage_returns(text: str) -> str:
    """Return each line as a terminal would show it after the carriage returns of a progress bar."""
    if "\r" not in text:
        return text
    lines = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return "\n".join(lines)
