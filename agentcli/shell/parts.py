"""The parts of a command line, marked so that bash keeps what each ended with.

Only what is plain is marked: words, quotes and separators that nobody could read otherwise.
Everything else runs as it was written.
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
    """The parts of `command` with the separators at their ends; empty when it has only one, or is
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


def marked(parts: Sequence[str]) -> str:
    """The command of `parts`, which leaves number and status of those that ended in a variable:
    all but the last, and but those whose status the next one reads itself."""
    text = ""
    for number, part in enumerate(parts[:-1]):
        mark = "" if "$?" in parts[number + 1] else f'; {VARIABLE}+=" {number}:$?"'
        text += f"{part[:-1]}{mark}{part[-1]}"
    return text + parts[-1]


def ended(parts: Sequence[str], told: str) -> list[tuple[str, int]]:
    """The parts that had ended, each with its status; `told` is what the variable held."""
    found = re.findall(r"(\d{1,4}):(\d{1,3})\b", told)
    return [(shortened(parts[int(n)]), int(code)) for n, code in found if int(n) < len(parts)]


def head_share(command: str) -> float:
    """Of what a cut leaves of its output: of what shows files, which it may do last, the beginning
    says more than the end; of most other programs it is the end."""
    return SOURCE_HEAD_SHARE if _PRINTS_SOURCE.search(command.strip()) else HEAD_SHARE


def shortened(command: str) -> str:
    line = " ".join(command.strip(" \t\n;").split())
    return line if len(line) <= _MOST_SHOWN else f"{line[: _MOST_SHOWN - 1]}…"
