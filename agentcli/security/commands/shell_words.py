"""The words of bash: what a written word stands for, and a plain tokenizer for whole scripts.

The tokenizer shares nothing with tree-sitter's grammar. If both find the same words in a script, a
quirk of one of them can't hide a command.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

Unknown = Literal["", "glob", "run"]
"""Why a word isn't known: it is a file name pattern, or its value is decided at run time."""

_PLAIN = re.compile(r"[^'\"\\$`()<>;&|\n \t!{*?\[]+")
_PLAIN_IN_QUOTES = re.compile(r"[^\"\\$`!]+")
_EXPANDS = re.compile(r"\$[A-Za-z0-9_{(\[*@#?!$-]")
_NAME = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*|[0-9*@#?!$-])")
_BLANK = re.compile(r"[ \t\n]")
_HISTORY = re.compile(r"![^\s=\"(]")
_NESTING = re.compile(r"\\.|\$[({]|[\"'`(){}]", re.DOTALL)
_CLOSING = {"$(": ")", "(": ")", "${": "}", '"': '"', "`": "`"}
_LONGEST_EXPANSION = 8_192
_DEEPEST_EXPANSION = 20
_UNUSUAL = re.compile(r"[^\n\t -~]")
_ANSI_QUOTED = re.compile(r"\$'((?:\\.|[^'\\])*)'", re.DOTALL)
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


class Part(NamedTuple):
    """A part of a word. `text` is what it stands for; for a parameter, what is written after the
    dollar sign, and for a command, the script within. A brace begins an expansion such as {a,b}.
    What is unclear or torn may stand for something else, or has no end."""

    kind: Literal["plain", "quoted", "glob", "brace", "parameter", "command", "unclear", "torn"]
    text: str


_Unit = tuple[tuple[Part, ...], int]
"""Parts that belong together, such as those within quotes, and where they end."""


def strange_characters(text: str) -> str:
    """Describe a character in `text` that a user or parser could mistake for something else; ""
    if there is none. These are control characters, blanks that bash does not treat as such, and
    invisible characters."""
    for character in _UNUSUAL.findall(text):
        category = unicodedata.category(character)
        if category in ("Cc", "Cf", "Cs", "Co", "Cn", "Zs", "Zl", "Zp"):
            return f"it contains the character U+{ord(character):04X}"
    return ""


def decode(raw: str) -> Word:
    """Return the one word that bash makes of `raw`, which is written as in a script."""
    out: list[str] = []
    unknown: Unknown = ""
    for part in parts(raw):
        if part.kind == "glob":
            unknown = "glob"
        elif part.kind not in ("plain", "quoted"):
            return Word(raw, None, "run")
        out.append(part.text)
    return Word(raw, None if unknown else "".join(out), unknown)


def parts(raw: str) -> Iterator[Part]:
    """Yield the parts of a word, which is written as in a script."""
    at = 0
    while at < len(raw):
        found, end = _unit(raw, at)
        # Only here, because looking ahead at each of very many openings takes long.
        if (raw[at] == "{" and not _expands_braces(raw, at)) or (
            raw[at] == "[" and raw.find("]", at) < 0
        ):
            found = (Part("plain", raw[at]),)
        yield from found
        at = end


def without_quoted(text: str) -> str:
    """Return a script with what is quoted in it replaced by '', except commands within quotes and
    what follows a quote or an expansion without end."""
    out: list[str] = []
    at, word_begins = 0, True
    while at < len(text):
        found: tuple[Part, ...] = ()
        if text[at] == "#" and word_begins:
            end = _line_end(text, at)
        else:
            found, end = _unit(text, at)
        kinds = {part.kind for part in found}
        is_quoted = text.startswith(("'", '"', "$'"), at)
        if "torn" in kinds:
            return "".join(out) + text[at:]
        if is_quoted or "command" in kinds:
            inside = (without_quoted(part.text) for part in found if part.kind == "command")
            out += ["''" if is_quoted else "", *(f"$({command})" for command in inside)]
        else:
            out.append(text[at:end])
        word_begins = text[at] in _WORD_ENDS
        at = end
    return "".join(out)


def _line_end(text: str, at: int) -> int:
    newline = text.find("\n", at)
    return newline if newline >= 0 else len(text)


def _unit(raw: str, at: int) -> _Unit:
    """Return what begins at `at`; an opening bracket or brace may be a plain one after all."""
    if run := _PLAIN.match(raw, at):
        return (Part("plain", run[0]),), run.end()
    character = raw[at]
    match character:
        case "'":
            end = raw.find("'", at + 1)
            return _torn(raw, at) if end < 0 else ((Part("quoted", raw[at + 1 : end]),), end + 1)
        case '"':
            return _double_quoted(raw, at)
        case "\\" if at + 1 == len(raw):
            return _torn(raw, at)
        case "\\":
            return (Part("quoted", raw[at + 1].strip("\n")),), at + 2
        case "$" if raw.startswith("$'", at):
            return _ansi_quoted(raw, at)
        case "$" | "`":
            return _expansion(raw, at)
        case "*" | "?" | "[":
            return (Part("glob", character),), at + 1
        case "{":
            return (Part("brace", character),), at + 1
        case "!" if not _HISTORY.match(raw, at):
            return (Part("plain", character),), at + 1
    return (Part("unclear", character),), at + 1


def _torn(raw: str, at: int, length: int = 1) -> _Unit:
    return (Part("torn", raw[at : at + length]),), at + length


def _expands_braces(raw: str, at: int) -> bool:
    """Return whether a brace expansion may begin at `at`: {a,b} or {1..3} within one word."""
    blank = _BLANK.search(raw, at)
    end = raw.rfind("}", at, blank.start() if blank else len(raw))
    return end > 0 and (raw.find(",", at, end) > 0 or raw.find("..", at, end) > 0)


def _expansion(raw: str, at: int) -> _Unit:
    """Return the parameter or substitution at `at`. It is torn if it has no end nearby."""
    if found := _NAME.match(raw, at):
        return (Part("parameter", found[1]),), found.end()
    opening = raw[at] if raw[at] == "`" else raw[at : at + 2]
    if opening in ('$"', "$["):
        return _torn(raw, at)
    if opening not in _CLOSING:
        return (Part("plain", "$"),), at + 1
    end = _expansion_end(raw, at + len(opening), _CLOSING[opening])
    if end < 0:
        return _torn(raw, at, len(opening))
    if opening == "${":
        return (Part("parameter", raw[at + 1 : end]),), end
    return (Part("command", raw[at + len(opening) : end - 1]),), end


def _expansion_end(raw: str, at: int, closing: str) -> int:
    """Return the place after `closing`, where the expansion ends whose inside begins at `at`; -1 if
    that is uncertain."""
    waiting = [closing]
    end = at + _LONGEST_EXPANSION
    while 0 < len(waiting) <= _DEEPEST_EXPANSION:
        found = _NESTING.search(raw, at, end)
        if found is None:
            return -1
        mark, at = found[0], found.end()
        if mark == waiting[-1]:
            waiting.pop()
        elif mark == "'" and waiting[-1] != '"':
            at = raw.find("'", at) + 1
            if at == 0:
                return -1
        elif mark in _CLOSING and (mark != "(" or waiting[-1] == ")"):
            waiting.append(_CLOSING[mark])
    return -1 if waiting else at


def _double_quoted(raw: str, start: int) -> _Unit:
    found: list[Part] = []
    at = start + 1
    while at < len(raw) and raw[at] != '"':
        if run := _PLAIN_IN_QUOTES.match(raw, at):
            found.append(Part("quoted", run[0]))
            at = run.end()
        elif raw[at] == "\\" and raw[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            found.append(Part("quoted", raw[at + 1].strip("\n")))
            at += 2
        elif raw[at] == "`" or _EXPANDS.match(raw, at):
            inner, at = _expansion(raw, at)
            found += inner
        else:
            found.append(Part("unclear" if _HISTORY.match(raw, at) else "quoted", raw[at]))
            at += 1
    return _torn(raw, start) if at >= len(raw) else (tuple(found), at + 1)


def _ansi_quoted(raw: str, at: int) -> _Unit:
    """Decode $'…'. A code for which bash writes bytes that are no character is not decoded."""
    whole = _ANSI_QUOTED.match(raw, at)
    if whole is None:
        return _torn(raw, at, 2)
    known = all(map(_ansi_character, _ANSI.finditer(whole[1])))
    text = _ANSI.sub(_ansi_character, whole[1])
    return (Part("quoted" if known else "unclear", text),), whole.end()


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


_OPERATOR = re.compile(r"&>>|<<<|<<-|&&|\|\||;;|\|&|&>|>>|>&|>\||<&|<>|<<|[;&|()<>\n]")
_SEPARATORS = {"&&", "||", ";;", "|&", ";", "&", "|", "(", ")", "\n"}
_BEYOND = ("<<", "<<-", "<<<", "|&", ";;")
_WORD_ENDS = " \t\n;&|()<>"


def tokens(text: str) -> list[Token] | None:
    """Return the words and operators of a script of plain commands; None if it contains what this
    tokenizer doesn't handle, such as substitutions and here-documents."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        start = at
        if text[at] in " \t":
            at += 1
        elif text.startswith("\\\n", at):
            at += 2
        elif text[at] == "#":
            at = _line_end(text, at)
        elif operator := _OPERATOR.match(text, at):
            if operator[0] in _BEYOND or text.startswith(("<(", ">("), at):
                return None
            at = operator.end()
            found.append(Token(start, at, operator[0] in _SEPARATORS))
        else:
            while at < len(text) and text[at] not in _WORD_ENDS:
                unit, at = _unit(text, at)
                for part in unit:
                    braces = part.kind == "parameter" and part.text.startswith("{")
                    if braces or part.kind in ("command", "torn"):
                        return None
            found.append(Token(start, at, False))
    return found
