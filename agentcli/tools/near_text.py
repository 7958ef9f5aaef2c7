"""Why an edit's old text is not in a file: what comes closest to it, and how it differs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator
from difflib import SequenceMatcher

from agentcli.shell.variables import WITHHELD
from agentcli.tools.read import numbered, shortened
from agentcli.workspace.text import split_lines

SHOWN_LINES = 12
_NOT_WORTH_A_CUT = 4
_CHANGED_CHARS = 2_000
_NEIGHBOUR_CHARS = 120
_MAX_COMPARED_LINES = 20_000


def occurrences(text: str, old: str) -> Iterator[int]:
    """Yield the positions at which `str.replace` would replace."""
    at = text.find(old)
    while at >= 0:
        yield at
        at = text.find(old, at + len(old))


def excerpt(lines: list[str], start: int, end: int, whole: Collection[int]) -> list[str]:
    """Return lines `start` to `end`, numbered; long ones are shortened, less so those in
    `whole`."""
    shown = [
        shortened(line, _CHANGED_CHARS if number in whole else _NEIGHBOUR_CHARS)
        for number, line in enumerate(lines[start:end], start)
    ]
    out = list(numbered(shown, start + 1))
    if len(out) > SHOWN_LINES + _NOT_WORTH_A_CUT:
        half = SHOWN_LINES // 2
        out[half:-half] = [f"[{len(out) - 2 * half} lines not shown]"]
    return out


_LOOKALIKES = str.maketrans(
    {
        **dict.fromkeys("\u2018\u2019\u201a\u201b\u2032\u00b4`", "'"),
        **dict.fromkeys("\u201c\u201d\u201e\u201f\u2033", '"'),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"),
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad"),
    }
)


def _alike(line: str) -> str:
    folded = unicodedata.normalize("NFKC", line).translate(_LOOKALIKES)
    return " ".join(folded.replace("'", '"').split())


_DIFFERENCES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("white space at line ends", str.rstrip),
    ("indentation", str.strip),
    ("white space", lambda line: re.sub(r"\s+", "", line)),
    ("quotes, dashes or other look-alike characters", _alike),
)


def not_found(shown: str, text: str, old: str) -> str:
    """Return a message with what comes closest to `old`, and how it differs."""
    head = f"old_str is not in {shown}"
    without_numbers = re.sub(r"(?m)^ *\d+\t", "", old)
    if without_numbers != old and without_numbers in text:
        return f"{head} because it has line numbers in front of its lines: leave them out."
    if WITHHELD in old and WITHHELD not in text:
        return (
            f"{head}: {WITHHELD} stands for a secret that is not shown to you. "
            "Edit the text beside it, in an old_str without it."
        )
    unescaped = old.replace("\\n", "\n").replace("\\t", "\t").replace('\\"', '"')
    if unescaped != old and unescaped in text:
        return f'{head} because it is escaped once too often (\\n, \\t or \\" for the characters).'
    lines = split_lines(text)
    for difference, simplify in _DIFFERENCES:
        if found := _simplified_places(lines, old, simplify):
            excerpts = [
                line
                for first, end in found
                for line in excerpt(lines, first, end, range(first, end))
            ]
            tabs = _indentation(lines, old, found[0]) if difference == "indentation" else ""
            return "\n".join([f"{head}: it differs only in {difference}{tabs} from:", *excerpts])
    if closest := _closest(lines, old):
        shown_lines = excerpt(lines, *closest, whole=range(*closest))
        return "\n".join([f"{head}. The closest text:", *shown_lines])
    return f"{head}, nor anything like it. Read the file again."


def _simplified_places(
    lines: list[str], old: str, simplify: Callable[[str], str]
) -> list[tuple[int, int]]:
    """Return up to three line ranges that equal `old` after `simplify`."""
    wanted = "\n".join(map(simplify, old.split("\n"))).strip("\n")
    if not wanted.strip():
        return []
    text = "\n".join(map(simplify, lines))
    return [
        (first := text.count("\n", 0, at), first + wanted.count("\n") + 1)
        for at, _ in zip(occurrences(text, wanted), range(3), strict=False)
    ]


def _indentation(lines: list[str], old: str, place: tuple[int, int]) -> str:
    """Describe the first pair of lines that differ: ` (old_str: 4 spaces, file: 1 tab)`."""
    for mine, theirs in zip(old.strip("\n").split("\n"), lines[slice(*place)], strict=False):
        a, b = (line[: len(line) - len(line.lstrip())] for line in (mine, theirs))
        if a != b:
            return f" (old_str: {_blanks(a)}, file: {_blanks(b)})"
    return ""


def _blanks(text: str) -> str:
    counts = [(text.count("\t"), "tab"), (len(text) - text.count("\t"), "space")]
    return " and ".join(f"{n} {w}{'s' * (n > 1)}" for n, w in counts if n) or "none"


def _closest(lines: list[str], old: str) -> tuple[int, int] | None:
    """Return the range around the line most like the longest of `old`, if any is similar enough."""
    if len(lines) > _MAX_COMPARED_LINES:
        return None
    wanted = old.strip("\n").split("\n")
    anchor = max(range(len(wanted)), key=lambda i: len(wanted[i].strip()))
    matcher = SequenceMatcher(None, "", wanted[anchor].strip()[:300], autojunk=False)
    best, at = 0.6, -1
    for number, line in enumerate(lines):
        matcher.set_seq1(line.strip()[:300])
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, at = ratio, number
    if at < 0:
        return None
    first = max(at - anchor, 0)
    return first, first + len(wanted)
