r"""Wildcards as in git's ignore files (`*`, `?`, `[…]`, `**`, `\`), as regular expressions.

One translation serves ignore files, the user's rules and the patterns of tools. It gives the
answers of git's own matcher: https://github.com/git/git/blob/v2.39.5/wildmatch.c. Patterns come
with the repository, so none may take exponential time. pathspec 1.1 takes 5 s to match a pattern of
seven stars against a name of 60 letters; this takes 0.3 ms.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product
from typing import NamedTuple
from unicodedata import normalize

from agentcli.errors import ToolError

NOTHING = "(?!)"
"""The expression of a pattern that can match nothing, such as one with a bracket that has no
end."""
_LONGEST_PATTERN = 1_000
_MOST_VARIANTS = 1_000
_MOST_CHARACTERS = 50_000
"""Of all variants together; compiling them takes about 0.3 s."""
_SPECIAL = re.compile(r"[*?\[\\]")
_ESCAPE = re.compile(r"\\(.)", re.S)
_STARS = re.compile(r"\*+")
_BRACES = re.compile(r"(?<!\\)\{((?:\\.|[^{}\\])*,(?:\\.|[^{}\\])*)\}", re.S)
_MEMBER = re.compile(r"\[:([^\]]*):\]|\\(.)|(.)", re.S)
_RANGE = re.compile(r"-(?:\\(.)|([^\]\\]))", re.S)
_COMMA = re.compile(r"(?<!\\),")
_NOT_ALONE = re.compile(r"(\\.)|([\[\]{}])", re.S)
_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\r ",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class _Piece(NamedTuple):
    """`kind` is "one" for a character, "star", or "deep" for folders at any depth; `expression`
    is empty for a star."""

    kind: str
    expression: str


_STAR = _Piece("star", "")
_DEEP = {"/": _Piece("deep", "(?:[^/]*/)*?"), "\\/": _Piece("deep", "(?:[^/]*/)+?")}
r"""`**/`, and `**\/`, which git does not let match nothing."""
_ALL = _Piece("deep", ".*")


def plain_length(pattern: str) -> int:
    """Return how many characters precede the first wildcard or escape."""
    found = _SPECIAL.search(pattern)
    return found.start() if found else len(pattern)


def has_wildcards(pattern: str) -> bool:
    """Return whether a pattern is more than a name whose special characters are escaped. One that
    ends with a backslash counts, as it matches nothing."""
    return _SPECIAL.search(_ESCAPE.sub("", pattern)) is not None


def unescaped(pattern: str) -> str:
    return _ESCAPE.sub(r"\1", pattern)


def compile_wildcards(pattern: str) -> re.Pattern[str]:
    """Return an expression for whole relative paths."""
    return re.compile(translate(pattern), re.S)


def translate(pattern: str, start: int = 0) -> str:
    """Return an expression for whole relative paths; NOTHING if none can match. `start` is a place,
    apart from the beginnings of parts, where a `**` may begin.

    Each stretch between two stars matches at its first possible place without backtracking. That is
    never wrong: a stretch has a fixed length, and an earlier end leaves more to the rest.
    """
    groups: list[tuple[str, list[str]]] = [("", [""])]
    for piece in _pieces(pattern, start):
        if piece is None:
            return NOTHING
        if piece.kind == "deep":
            groups.append((piece.expression, [""]))
        elif piece.kind == "star":
            groups[-1][1].append("")
        else:
            groups[-1][1][-1] += piece.expression
    *others, last = [lead + _joined(stretches) for lead, stretches in groups]
    return "".join(f"(?>{group})" for group in others if group) + last


def _joined(stretches: list[str]) -> str:
    first, *others = stretches
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>[^/]*?{stretch})" for stretch in middle) + f"[^/]*{last}"


def _pieces(pattern: str, start: int) -> Iterator[_Piece | None]:
    """Yield the pieces of a pattern; None if it can match nothing."""
    at = 0
    while at < len(pattern):
        character = pattern[at]
        if character == "*":
            end = _STARS.match(pattern, at).end()  # type: ignore[union-attr]
            begins = end - at > 1 and (at in (0, start) or pattern[at - 1] == "/")
            slash = "/" if pattern.startswith("/", end) else pattern[end : end + 2]
            if begins and end == len(pattern):
                yield _ALL
            elif begins and slash in _DEEP:
                yield _DEEP[slash]
                end += len(slash)
            else:
                yield _STAR
            at = end
        elif character == "[":
            members, at = _bracket(pattern, at + 1)
            yield _Piece("one", members) if members else None
        elif character == "?":
            yield _Piece("one", "[^/]")
            at += 1
        else:
            at += character == "\\"
            yield _Piece("one", re.escape(pattern[at])) if at < len(pattern) else None
            at += 1


def _bracket(pattern: str, at: int) -> tuple[str, int]:
    """Return the expression of the bracket whose inside begins at `at`, and where the rest of the
    pattern begins. It is empty if the bracket has no end or names an unknown class."""
    negated = pattern.startswith(("!", "^"), at)
    at += negated
    first, members, before = at, "", ""
    while pattern[at : at + 1] != "]" or at == first:
        if before and (found := _RANGE.match(pattern, at)):
            last = found[1] or found[2]
            members += f"{re.escape(before)}-{re.escape(last)}" if before <= last else ""
            before = ""
        elif (found := _MEMBER.match(pattern, at)) is None:
            return "", len(pattern)
        elif found[1] is None:
            before = found[2] or found[3]
            members += re.escape(before)
        elif found[1] not in _CLASSES:
            return "", len(pattern)
        else:
            members, before = members + _CLASSES[found[1]], ""
        at = found.end()
    return (f"[^/{members}]" if negated else f"(?!/)[{members}]"), at + 1


# --- patterns of people and models ---------------------------------------------------------------


def variants(pattern: str) -> list[str]:
    r"""Return the patterns that `pattern` stands for, about a thousand at most: braces expanded
    (`a{b,c}` is `ab` and `ac`), and each part with brackets or braces also as the name that it
    literally is, since folders are named `[id]` or `{slug}`."""
    literal = (_NOT_ALONE.sub(_as_literal, part) for part in pattern.split("/"))
    parts = [
        dict.fromkeys((part, other))
        for part, other in zip(pattern.split("/"), literal, strict=True)
    ]
    readings = ("/".join(chosen) for chosen in product(*parts))
    most = min(_MOST_VARIANTS, _MOST_CHARACTERS // max(len(pattern), 1))
    found: dict[str, None] = {}
    for reading in islice(readings, most):
        found.update(dict.fromkeys(expand_braces(reading, most - len(found))))
    return list(found)


def _as_literal(found: re.Match[str]) -> str:
    return found[1] or f"\\{found[2]}"


def expand_braces(pattern: str, most: int = _MOST_VARIANTS) -> list[str]:
    """Expand `a{b,c}` to `ab` and `ac`, at any depth; limited to about `most` results."""
    ready: list[str] = []
    waiting = [pattern]
    while waiting and len(ready) + len(waiting) < most:
        text = waiting.pop()
        match = _BRACES.search(text)
        if match is None:
            ready.append(text)
        else:
            before, after = text[: match.start()], text[match.end() :]
            waiting += [before + option + after for option in _COMMA.split(match[1])]
    return ready + waiting


class Glob:
    """A pattern for paths relative to where a search starts. Without `/` it matches names at any
    depth; a leading `!` matches all other paths. Composed and decomposed letters are the same."""

    def __init__(self, pattern: str) -> None:
        """Raises ToolError if the pattern is too long."""
        if len(pattern) > _LONGEST_PATTERN:
            raise ToolError(
                f"the pattern is longer than {_LONGEST_PATTERN:,} characters.",
                error_id="bad_pattern",
            )
        self._means_others = pattern.startswith("!")
        composed = normalize("NFC", pattern)
        options = variants(composed.removeprefix("!").removeprefix("./"))
        self._names = [compile_wildcards(option) for option in options if "/" not in option]
        self._paths = [compile_wildcards(option.lstrip("/")) for option in options if "/" in option]

    def matches(self, path: str) -> bool:
        path = path if path.isascii() else normalize("NFC", path)
        name = path.rsplit("/", 1)[-1]
        matches = any(pattern.fullmatch(name) for pattern in self._names) or any(
            pattern.fullmatch(path) for pattern in self._paths
        )
        return matches is not self._means_others
