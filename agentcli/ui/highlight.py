"""Syntax highlighting, with the lexers of Pygments."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import Token, _TokenType
from pygments.util import ClassNotFound

from agentcli.ui.text import Span, Style

_STYLES: tuple[tuple[_TokenType, Style], ...] = (
    (Token.Comment, "dim"),
    (Token.Keyword, "magenta"),
    (Token.Operator.Word, "magenta"),
    (Token.Literal.String, "green"),
    (Token.Literal.Number, "cyan"),
    (Token.Name.Decorator, "cyan"),
    (Token.Name.Variable, "cyan"),
    (Token.Generic.Deleted, "red"),
    (Token.Generic.Inserted, "green"),
    (Token.Generic.Heading, "bold"),
)
_MOST_CHARACTERS = 50_000
_LONGEST_LINE = 2_000
"""Longer text stays plain: lexers may take long on text that is no code."""
_HERE_DOCUMENT = re.compile(
    r"\b(python|node|ruby|perl|bash|sh|psql|sqlite3)[\d.]*(?:\s[^<]*)?<<-?\s*(['\"]?)(\w+)\2"
)
_LANGUAGES = {"node": "javascript", "sh": "bash", "psql": "sql", "sqlite3": "sql"}
"""Languages of programs whose names differ from their language's."""


def highlight(code: str, language: str) -> list[list[Span]]:
    """Return the lines of `code`, which must be printable already; unstyled if the language is
    unknown. A here-document for another program is highlighted in that program's language."""
    lines: list[list[Span]] = [[]]
    for text, style, _ in _spans(code, language):
        first, *others = text.split("\n")
        lines[-1].append(Span(first, style))
        lines += [[Span(other, style)] for other in others]
    return lines


def highlight_code(code: str, language: str) -> list[list[Span]]:
    """Like `highlight`, for code within text: code in an unknown language gets a single colour."""
    if _lexer(language) is None:
        return [[Span(line, "cyan")] for line in code.split("\n")]
    return highlight(code, language)


def _spans(code: str, language: str) -> Iterator[Span]:
    if len(code) > _MOST_CHARACTERS or max(map(len, code.split("\n"))) > _LONGEST_LINE:
        language = ""
    for text, of in _parts(code) if language == "bash" else [(code, language)]:
        lexer = _lexer(of)
        if lexer is None:
            yield Span(text)
            continue
        for _, token, piece in lexer.get_tokens_unprocessed(text):
            yield Span(piece, next((style for kind, style in _STYLES if token in kind), ""))


def _parts(code: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a shell script, with their languages: shell code and here-documents."""
    lines = code.splitlines(keepends=True)
    shell_from = at = 0
    while at < len(lines):
        opened = _HERE_DOCUMENT.search(lines[at])
        at += 1
        if opened is None:
            continue
        ends = (n for n in range(at, len(lines)) if lines[n].strip() == opened[3])
        end = next(ends, len(lines))
        yield "".join(lines[shell_from:at]), "bash"
        yield "".join(lines[at:end]), _LANGUAGES.get(opened[1], opened[1])
        shell_from = at = end
    yield "".join(lines[shell_from:]), "bash"


@cache
def _lexer(language: str) -> Lexer | None:
    try:
        return get_lexer_by_name(language) if language else None
    except ClassNotFound:
        return None
