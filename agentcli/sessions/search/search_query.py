"""Turns whatever a user types into a query that the search index understands."""

from __future__ import annotations

import re

from agentcli.errors import UsageError

_MOST_CHARACTERS = 2_000
_MOST_TERMS = 64
_TERM = re.compile(r'"([^"]*)(?:"|\Z)(\*?)|([^\s"]+)')
_UNSPACED = re.compile("([\u0e00-\u0eff\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff])")
"""Letters of scripts without spaces between words; each is indexed as a word."""
BREAK = "\u200b"
MARK_START, MARK_END = "\x02", "\x03"
"""Marks around the words found in a snippet."""
_BLANKED = str.maketrans({MARK_START: " ", MARK_END: " ", "\0": " "})


def separate_words(text: str) -> str:
    """Put an invisible break around every letter of a script without spaces."""
    return text if text.isascii() else _UNSPACED.sub(BREAK + r"\1" + BREAK, text)


def full_text_expression(query: str) -> str:
    """Return an FTS5 expression for words (all of them must occur), "phrases" and beginnings*.

    Nothing else has a meaning: operators, signs and unbalanced quotes are plain text. Raises
    UsageError when the query has no word, or far too many.
    """
    if len(query) > _MOST_CHARACTERS:
        raise UsageError(f"the query is longer than {_MOST_CHARACTERS:,} characters")
    terms = []
    for phrase, star, word in _TERM.findall(storable(query)):
        text = word.rstrip("*") or phrase
        if any(char.isalnum() for char in text):
            begins = star or ("*" if word.endswith("*") else "")
            terms.append(f'"{separate_words(text)}"{begins}')
    if not terms:
        raise UsageError(
            f"there is no word to search for in {query!r}",
            hint='all words must occur; "…" finds a phrase, begin* the beginnings of words',
        )
    if len(terms) > _MOST_TERMS:
        raise UsageError(f"a query can have at most {_MOST_TERMS} words")
    return " ".join(terms)


def storable(text: str) -> str:
    """Replace what the index can't store: lone surrogates, NUL, the marks of snippets."""
    return text.encode("utf-8", "replace").decode().translate(_BLANKED)
