"""The words of bash: what a written word stands for, and a plain tokenizer for whole scripts.

The tokenizer shares nothing with tree-sitter's grammar. If both find the same words in a script, a
quirk of one of them can't hide a command.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal

Unknown = Literal["", "glob", "run"]
"""Why a word isn't known: it is a file name pattern, or its value is decided at run time."""

_EXPANDS = re.compile(r"\$[A-Za-z0-9_{(\[*@#?!$-]")
_BLANK = re.compile(r"[ \t\n]")
_HISTORY = re.compile(r"![^\s=\"(]")
_ANSI_LETTERS = dict(zip("abeEfnrtv\\'\"?", "\a\b\x1b\x1b\f\n\r\t\v\\'\"?", strict=True))
_ANSI = re.compile(
    r"\\(?:x(?P<x>[0-9a-fA-F]{1,2})|u(?P<u>[0-9a-fA-F]{1,4})|U(?P<U>[0-9a-fA-F]{1,8})"
    r"|(?P<o>[0-7]{1,3})|(?P<letter>[abeEfnrtv\\'\"?])|(?P<other>.?))",
    re.DOTALL,
)


@dataclass(frozen=True)
class Word:
    """A word. `raw` is how it is written; `text` is None if it is known only at run time, and
    `unknown` then says why."""

    raw: str
    text: str | None
    unknown: Unknown = ""


def strange_characters(text: str) -> str:
    """Describe a character in `text` that a user or parser could mistake for something else; ""
    if there is none. These are control characters, blanks that bash does not treat as such, and
    invisible characters."""
    for character in text:
        if character in "\n\t" or " " <= character <= "~":
            continue
        category = unicodedata.category(character)
        if category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"):
            return f"it contains the character U+{ord(character):04X}"
    return ""


def decode(raw: str) -> Word:
    """Return the one word that bash makes of `raw`, which is written as in a script."""
    out: list[str] = []
    at, files = 0, False
    while at < len(raw):
        piece, at, kind = _piece(raw, at)
        if kind == "run":
            return Word(raw, None, "run")
        files = files or kind == "glob"
        out.append(piece)
    if files and raw != "[":
        return Word(raw, None, "glob")
    return Word(raw, "".join(out))


def _piece(raw: str, at: int) -> tuple[str, int, Unknown]:
    """Return the text that begins at `at`, where it ends, and whether it is known."""
    character = raw[at]
    if character == "'":
        end = raw.find("'", at + 1)
        return (raw[at + 1 : end], end + 1, "") if end > 0 else ("", len(raw), "run")
    if character == '"':
        return _double_quoted(raw, at + 1)
    if character == "\\":
        return _escaped(raw, at)
    if character == "$":
        if raw[at + 1 : at + 2] == "'":
            return _ansi_quoted(raw, at + 2)
        later = raw[at + 1 : at + 2] == '"' or _EXPANDS.match(raw, at)
        return "$", at + 1, "run" if later else ""
    if character in "`()<>;&|\n \t" or _HISTORY.match(raw, at) or _expands_braces(raw, at):
        return "", at + 1, "run"
    if character in "*?" or (character == "[" and raw.find("]", at) > 0):
        return character, at + 1, "glob"
    return character, at + 1, ""


def _expands_braces(raw: str, at: int) -> bool:
    """Return whether a brace expansion may begin at `at`: {a,b} or {1..3} within one word."""
    if raw[at] != "{":
        return False
    blank = _BLANK.search(raw, at)
    end = raw.rfind("}", at, blank.start() if blank else len(raw))
    return end > 0 and (raw.find(",", at, end) > 0 or raw.find("..", at, end) > 0)


def _escaped(raw: str, at: int) -> tuple[str, int, Unknown]:
    if at + 1 >= len(raw):
        return "", len(raw), "run"
    following = raw[at + 1]
    return "" if following == "\n" else following, at + 2, ""


def _double_quoted(raw: str, at: int) -> tuple[str, int, Unknown]:
    out: list[str] = []
    while at < len(raw) and raw[at] != '"':
        character = raw[at]
        if character == "\\" and raw[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            out.append("" if raw[at + 1] == "\n" else raw[at + 1])
            at += 2
            continue
        if character == "`" or _EXPANDS.match(raw, at) or _HISTORY.match(raw, at):
            return "", len(raw), "run"
        out.append(character)
        at += 1
    return "".join(out), at + 1, "" if at < len(raw) else "run"


def _ansi_quoted(raw: str, at: int) -> tuple[str, int, Unknown]:
    """Decode the inside of $'…'. A code for which bash writes bytes that are no character is not
    decoded."""
    out: list[str] = []
    while at < len(raw) and raw[at] != "'":
        if raw[at] != "\\":
            out.append(raw[at])
            at += 1
            continue
        found = _ANSI.match(raw, at)
        assert found is not None
        character = _ansi_character(found)
        if not character:
            return "", len(raw), "run"
        out.append(character)
        at = found.end()
    return "".join(out), at + 1, "" if at < len(raw) else "run"


def _ansi_character(found: re.Match[str]) -> str:
    """Return what an escape stands for; "" if it isn't one character, or ends the string."""
    if found["letter"]:
        return _ANSI_LETTERS[found["letter"]]
    codes = (("x", 16, 0x80), ("o", 8, 0x80), ("u", 16, 0xD800), ("U", 16, 0xD800))
    for name, base, limit in codes:
        if found[name] is not None:
            code = int(found[name], base)
            return chr(code) if 0 < code < limit else ""
    return ""


@dataclass(frozen=True)
class Token:
    """A word or an operator, by its place in the text; `separates`: it separates commands."""

    start: int
    end: int
    separates: bool


_OPERATORS = (
    *("&>>", "<<<", "<<-", "&&", "||", ";;", "|&", "&>", ">>", ">&", ">|", "<&", "<>", "<<"),
    *(";", "&", "|", "(", ")", "<", ">", "\n"),
)
_SEPARATORS = {"&&", "||", ";;", "|&", ";", "&", "|", "(", ")", "\n"}
_BEYOND = ("<<", "<<-", "<<<", "|&", ";;")


def tokens(text: str) -> list[Token] | None:
    """Return the words and operators of a script of plain commands; None if it contains what this
    tokenizer doesn't handle, such as substitutions and here-documents."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif text[at] == "#":
            newline = text.find("\n", at)
            at = newline if newline >= 0 else len(text)
        elif operator := next((o for o in _OPERATORS if text.startswith(o, at)), None):
            if operator in _BEYOND or text.startswith(("<(", ">("), at):
                return None
            found.append(Token(at, at + len(operator), operator in _SEPARATORS))
            at += len(operator)
        else:
            end = _word_end(text, at)
            if end is None:
                return None
            found.append(Token(at, end, False))
            at = end
    return found


def _word_end(text: str, at: int) -> int | None:
    """Return where the word that begins at `at` ends; None if that is uncertain."""
    while at < len(text) and text[at] not in " \t\n;&|()<>":
        if text[at] in "'\"":
            at = _quote_end(text, at)
        elif text[at] == "\\":
            at += 2
        elif text.startswith("$'", at):
            at = _quote_end(text, at + 1, escapes=True)
        elif text[at] == "`" or text.startswith(("$(", "${", '$"', "$["), at):
            return None
        else:
            at += 1
        if at <= 0:
            return None
    return at if at <= len(text) else None


def _quote_end(text: str, at: int, *, escapes: bool = False) -> int:
    """Return the place after the closing quote; 0 if there is none or something expands inside."""
    quote = text[at]
    at += 1
    while at < len(text) and text[at] != quote:
        if quote == '"' and (text[at] == "`" or text.startswith(("$(", "${", "$["), at)):
            return 0
        at += 2 if text[at] == "\\" and (quote == '"' or escapes) else 1
    return at + 1 if at < len(text) else 0
