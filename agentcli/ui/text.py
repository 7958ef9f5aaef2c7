"""Text for terminals: made safe, styled, and, where the user has to decide on it, unambiguous."""

from __future__ import annotations

import re
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple, TextIO

Style = Literal[
    "", "dim", "bold", "red", "green", "yellow", "cyan", "magenta", "red bold", "reverse"
]
Colors = Literal["full", "mono", "none"]
"""`mono` keeps weight (bold, dim) without colours, as NO_COLOR asks."""

_CODES: dict[str, str] = {
    "dim": "2",
    "bold": "1",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "cyan": "36",
    "magenta": "35",
    "red bold": "31;1",
    "reverse": "7",
}
_MONO_CODES: dict[str, str] = {"dim": "2", "bold": "1", "red bold": "1", "reverse": "7"}
_PAINT = re.compile(r"\x1b\[[0-9;]*m|\x1b\]8;;[!-~]*?\x1b\\")
_WORD = re.compile(r" +|[^ ]+ *")


class Span(NamedTuple):
    """Text in one style. `link` is its target on terminals with links: see `url_link`."""

    text: str
    style: Style = ""
    link: str = ""


Line = Sequence[Span]


def plain(line: Line) -> str:
    return "".join(span.text for span in line)


def paint(line: Line, colors: Colors) -> str:
    """Return the line with escape codes for its styles; its text must be printable already."""
    if colors == "none":
        return plain(line)
    codes = _CODES if colors == "full" else _MONO_CODES
    parts = []
    for text, style, link in line:
        code = codes.get(style)
        painted = f"\x1b[{code}m{text}\x1b[0m" if code and text else text
        parts.append(f"\x1b]8;;{link}\x1b\\{painted}\x1b]8;;\x1b\\" if link else painted)
    return "".join(parts)


def cells(text: str) -> int:
    """Return how many columns `text`, painted or not, takes; in doubt (joined emoji) the most."""
    text = without_escapes(text)
    return len(text) if text.isascii() else sum(map(_width, text))


@lru_cache(maxsize=4096)
def _width(char: str) -> int:
    if char == "\ufe0f":  # It makes an emoji of the sign before it.
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def clip(line: Line, width: int) -> Line:
    """Return the line cut to `width` columns, with `…` where text is missing."""
    expanded = [span._replace(text=span.text.expandtabs(4)) for span in line]
    if cells(plain(expanded)) <= width:
        return expanded
    room = max(width - 1, 0)
    kept: list[Span] = []
    for span in expanded:
        taken = span.text[: fitting(span.text, room)]
        kept.append(span._replace(text=taken))
        if taken != span.text:
            break
        room -= cells(taken)
    return [*kept, Span("…", "dim")]


def wrap(line: Line, width: int) -> list[Line]:
    """Break the line into rows between words. Text that begins with a blank is not broken: it is
    indented, so something to copy. A word wider than `width` stays whole."""
    rows: list[list[Span]] = [[]]
    used = 0
    for span in line:
        for number, text in enumerate(span.text.split("\n")):
            if number:
                rows.append([])
                used = 0
            as_it_is = text.startswith(" ") and not used
            for word in [text] if as_it_is else _WORD.findall(text):
                size = cells(word.rstrip(" "))
                if used and size and used + size > width:
                    rows.append([])
                    used = 0
                used += cells(word)
                if rows[-1] and rows[-1][-1][1:] == span[1:]:
                    word = rows[-1].pop().text + word
                rows[-1].append(span._replace(text=word))
    for row in filter(None, rows):
        row[-1] = row[-1]._replace(text=row[-1].text.rstrip(" "))
    return [*rows]


def without_escapes(text: str) -> str:
    """Return painted text without its escape codes."""
    return _PAINT.sub("", text)


def fitting(text: str, width: int) -> int:
    """Return how many characters from the start of `text` fit into `width` columns."""
    if text.isascii():
        return min(len(text), width)
    used = 0
    for index, char in enumerate(text):
        used += _width(char)
        if used > width:
            return index
    return len(text)


def joined(*parts: Sequence[Span]) -> list[Span]:
    """Return the parts that are not empty as one line, with ` · ` between them."""
    line: list[Span] = []
    for part in filter(plain, parts):
        line += [Span(" · ", "dim"), *part] if line else part
    return line


def indent(lines: Iterable[Line], by: int = 4) -> list[Line]:
    return [[Span(" " * by), *line] for line in lines]


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
        text = _UNSEEN_LETTERS.sub(_codepoint, text)
        text = "".join(c if c.isprintable() or c in "\n\t" else f"<U+{ord(c):04X}>" for c in text)
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
    code = ord(match[0])
    if code < 0x20 or code == 0x7F:
        return chr(0x2400 + code) if code < 0x20 else "␡"
    if code < 0xA0:
        return f"<{code:02X}>"
    return _codepoint(match) if code < 0xD800 else "\ufffd"


def _codepoint(found: re.Match[str]) -> str:
    """Return a character's code point, such as `<U+202E>`."""
    return f"<U+{ord(found[0]):04X}>"


def resolve_carriage_returns(text: str) -> str:
    """Return each line as a terminal would show it after the carriage returns of a progress bar."""
    if "\r" not in text:
        return text
    lines = (line.rstrip("\r").rsplit("\r", 1)[-1] for line in text.split("\n"))
    return "\n".join(lines)


_PICTURES = re.compile("[\u2400-\u2426]")
"""Signs for control characters; one that occurs in the text itself is shown as its code point."""

_PADDING = re.compile(r" {24,}")
_AT_END = re.compile(r"(?<! ) +$")
_BLANKS = re.compile(" +")
_NUMBER = re.compile(r"\d")
_LETTERS = re.compile(r"[^\W\d_]+")
_LOOK_ALIKE = re.compile("[\u0370-\u058f\u13a0-\u13ff\uab70-\uabbf]")
"""Letters that can pass for Latin ones: Greek, Cyrillic, Armenian, Cherokee."""

_OVERLAYS = re.compile("[\u0334-\u0338\u20d0-\u20ff]")
_MOST_ACCENTS = 2
_MOST_BLANK_LINES = 4
_MOST_PER_COLUMN = 4
"""Most characters of visible text per column: a letter with its accents."""
_NARROWEST = 8
_GUTTER, _GOES_ON = Span("  │", "dim"), Span("  ↳", "dim")


class ExactLine(NamedTuple):
    """One line of a question. `mark` is shown before it; in a diff it is the line's number with
    `+`, `-` or a blank. Continuation rows don't repeat the number."""

    text: str
    mark: str = ""
    style: Style = ""


def reveal_hidden(line: str) -> str:
    """Return a line in which no character is invisible or passes for another. Tabs, blanks at the
    end and control characters are shown as signs (`␉`, `␣`, `␛`), unusual characters by their code
    point (`<U+202E>`), and long padding as a count (`<200 blanks>`)."""
    if not line.isascii():
        line = _PICTURES.sub(_codepoint, line)
        line = _LETTERS.sub(_mixed, "".join(_combining(line)))
    line = printable(line, multiline=False, strict=True)
    line = _PADDING.sub(lambda run: f"<{len(run.group())} blanks>", line)
    return _AT_END.sub(lambda run: run.group().replace(" ", "␣"), line)


def exact_lines(text: str) -> list[ExactLine]:
    """Split `text` into lines, only at newlines, so that a carriage return stays visible."""
    return [ExactLine(line) for line in text.split("\n")]


def exact_rows(lines: Iterable[ExactLine], width: int) -> Iterator[Line]:
    """Yield rows of at most `width` columns. Continuation rows are marked with `↳`; a blank at a
    break is shown, so that the break can't be taken for one within a word. Many blank lines in a
    row are replaced by their count."""
    for blank, group in groupby(lines, key=lambda line: not line.text.strip(" \t")):
        together = list(group)
        if blank and len(together) > _MOST_BLANK_LINES:
            counted = f"<{len(together)} blank lines>"
            mark = f" {together[0].mark}" if together[0].mark else ""
            yield [_GUTTER, Span(f"{mark} {counted}", together[0].style)]
        else:
            for line in together:
                yield from _wrapped(line, width)


def exact_pieces(text: str, width: int) -> list[str]:
    """Split `text`, made visible already, into pieces of at most `width` columns, broken after
    blanks if that wastes little room."""
    width = max(width, _NARROWEST)
    pieces: list[str] = []
    carried, at = "", 0
    while True:
        ahead = carried + text[at : at + _MOST_PER_COLUMN * width]
        end = fitting(ahead, width)
        if end == len(ahead) and at + end - len(carried) >= len(text):
            return [*pieces, ahead]
        blank = ahead.rfind(" ", end // 2, end)
        end = end if blank < 0 else blank + 1
        kept = ahead[:end].rstrip(" ")
        pieces.append(kept + "␣" * (end - len(kept)))
        if end < len(carried):
            carried = carried[end:]
            continue
        at += end - len(carried)
        blanks = _BLANKS.match(text, at)
        carried = "␣" * len(blanks[0]) if blanks else ""
        at += len(carried)


def _wrapped(line: ExactLine, width: int) -> Iterator[Line]:
    before = f" {line.mark} " if line.mark else " "
    first, *others = exact_pieces(reveal_hidden(line.text), width - 3 - len(before))
    yield [_GUTTER, Span(f"{before}{first}".rstrip(" "), line.style)]
    before = _NUMBER.sub(" ", before)
    for piece in others:
        yield [_GOES_ON, Span(f"{before}{piece}", line.style)]


def _mixed(word: re.Match[str]) -> str:
    """Add the code points of look-alike letters in a word that mixes them with ASCII ones."""
    if not any(char.isascii() for char in word[0]):
        return word[0]
    return _LOOK_ALIKE.sub(lambda found: found[0] + _codepoint(found), word[0])


def _combining(text: str) -> Iterator[str]:
    """Keep accents on letters, but spell out any that strike through, pile up or lack a letter."""
    before, accents = "", 0
    for char in text:
        if unicodedata.category(char) not in ("Mn", "Me"):
            before, accents = char, 0
            yield char
            continue
        accents += 1
        honest = before.isalpha() and accents <= _MOST_ACCENTS and not _OVERLAYS.match(char)
        yield char if honest else f"<U+{ord(char):04X}>"
