"""Splits a command line into parts and marks them, so that bash records the status of each.

Only plain commands are marked: words, quotes and separators that can be read in one way only.
Everything else runs as written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentcli.shell.output import HEAD_SHARE, SOURCE_HEAD_SHARE

VARIABLE = "_agent_parts"
_PIECE = re.compile(
    r"""'[^']*'|"(?:[^"\\`$]|\\[\s\S]|\$(?!\())*"|(?P<end>[;\n])"""
    r"""|\\[\s\S]|&&|[<>]&[\d-]|&>>?|\$\{\w+\}|\$(?![('"{])|\{[\w.,/-]*\}|<(?![<(])|>(?!\()"""
    r"""|(?<=[^\s;])\#|[^'"\\`;\n&$(){}#<>]"""
)
_UNFINISHED = re.compile(r"(?:&&|\|\|?)\s*$")
_OPEN = re.compile(r"[<>]&?\s*$")
_NOT_PLAIN = re.compile(
    r"\s*(?:(?:if|then|elif|else|fi|for|while|until|do|done|case|esac|select|function|coproc|time"
    r"|set|shopt|trap|alias|unalias|exec|exit|return|eval|source|enable)\b|!|\[\[|\.\s)"
)
_TOLD_OF_LAST = re.compile(r"\$(?:_(?!\w)|\{_\})|PIPESTATUS")
_MOST_SHOWN = 60
_PRINTS_SOURCE = re.compile(
    r"(?:^|[;&|\n])\s*(?:cat|bat|nl|sed|awk|head|less|more|xxd|git\s+(?:show|diff|blame|log))\b"
    r"[^;|&\n]*$"
)


def parts_of(command: str) -> list[str]:
    """Return the parts of `command`, each ending with its separator; empty if it has only one or is
    not plain."""
    if _TOLD_OF_LAST.search(command):
        return []
    parts, start, at = [], 0, 0
    while at < len(command):
        piece = _PIECE.match(command, at)
        if piece is None:
            return []
        at = piece.end()
        if piece["end"]:
            part = command[start : at - 1]
            if _OPEN.search(part) or (piece["end"] == ";" and _is_blank(part)):
                return []
            if not _is_blank(part) and not _UNFINISHED.search(part):
                parts.append(command[start:at])
                start = at
    rest = command[start:]
    if not _is_blank(rest):
        parts.append(rest)
    elif parts:
        parts[-1] += rest
    return parts if len(parts) > 1 and not any(map(_NOT_PLAIN.match, parts)) else []


def _is_blank(part: str) -> bool:
    return not part.replace("\\\n", "").strip()


def with_marks(parts: Sequence[str]) -> str:
    """Return a command that also records, in a variable, number and status of each part that ends:
    all except the last, and those whose status the next part reads itself."""
    text = ""
    for number, part in enumerate(parts[:-1]):
        mark = "" if "$?" in parts[number + 1] else f'; {VARIABLE}+=" {number}:$?"'
        text += f"{part[:-1]}{mark}{part[-1]}"
    return text + parts[-1]


def ended_parts(parts: Sequence[str], told: str) -> list[tuple[str, int]]:
    """Return the parts that had ended with their statuses; `told` is what the variable held."""
    found = re.findall(r"(\d{1,4}):(\d{1,3})\b", told)
    return [(shortened(parts[int(n)]), int(code)) for n, code in found if int(n) < len(parts)]


def head_share(command: str) -> float:
    """Return the head's share in what a cut leaves of the output. If the command shows files, at
    the end at least, the beginning says more; with most other programs, the end does."""
    return SOURCE_HEAD_SHARE if _PRINTS_SOURCE.search(command.strip()) else HEAD_SHARE


def shortened(command: str) -> str:
    line = " ".join(command.strip(" \t\n;").split())
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 1]}…"
