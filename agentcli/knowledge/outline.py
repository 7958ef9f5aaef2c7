"""Shorten a long instruction file: keep what every task needs, and the headings of the rest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

LONG_CHARS = 4_000
_LEAST_SAVED = 0.2
"""Least share of the text that shortening must save; otherwise the text stays whole."""
_HEADING = re.compile(r"(#{1,4})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"\s*(```|~~~)")
_NEEDED = re.compile(
    r"build|test|lint|style|format|convention|cod(?:e|ing)|commit|pull request|\bprs?\b|develop"
    r"|set.?up|install|\brun|command|check|rule|guideline|contribut|workflow|\bci\b|environment"
    r"|quality|naming|typ(?:e|ing)|do(?:n'|no)t|never|always|must|important|requir|secur|polic"
    r"|permission|safe|boundar|agent",
    re.IGNORECASE,
)
_TELLS_HOW = re.compile(
    r"(?:`|^\s*\$?\s*)(?:cargo|go|npm|npx|pnpm|yarn|make|just|pytest|python3?|uv|tox|nox|ruff|mvn|gradle"
    r"|bundle|rake|dotnet|cmake|ctest|bazel|pre-commit)\s+[\w-]"
    r"|\b(?:must|never|always|do not|don't|require[ds]?|forbidden|important|prefer|avoid)\b",
    re.MULTILINE | re.IGNORECASE,
)
"""Matches commands for building and testing, and words that demand something."""


@dataclass(frozen=True)
class _Section:
    level: int
    title: str
    first: int
    """Number of the first line, from 1."""
    lines: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def last(self) -> int:
        return self.first + len(self.lines) - 1


def condensed_instructions(text: str, shown: str) -> str:
    """Shorten `text` of the Markdown file at `shown`. It stays whole if it is short or little could
    be left out. Otherwise keep its opening and the sections that are about building, testing,
    style and the like or that demand something; of the others list headings and line numbers."""
    if len(text) <= LONG_CHARS:
        return text
    kept: list[str] = []
    left: list[_Section] = []
    above: list[tuple[int, bool]] = []
    """Level of each enclosing section, and whether everything inside it is needed."""
    for section in _sections(text):
        above = [(level, needed) for level, needed in above if level < section.level]
        needed = _is_needed(section) or any(needed for level, needed in above if level > 1)
        above.append((section.level, bool(_NEEDED.search(section.title))))
        if needed:
            kept.append(section.text)
        else:
            left.append(section)
    saved = sum(len(section.text) for section in left)
    if saved < _LEAST_SAVED * len(text):
        return text
    names = "; ".join(f"{section.title} ({section.first}-{section.last})" for section in left)
    note = f"[Not shown, with their lines; read those that the task is about in {shown}: {names}]"
    return "\n".join([*kept, note]) + "\n"


def _is_needed(section: _Section) -> bool:
    opening = section.level <= 1 and section.first == 1
    return opening or bool(_NEEDED.search(section.title) or _TELLS_HOW.search(section.text))


def _sections(text: str) -> Iterator[_Section]:
    """Yield the text before the first heading, then each heading with the text below it."""
    section = _Section(0, "the beginning", 1, [])
    fence = ""
    for number, line in enumerate(text.rstrip("\n").split("\n"), 1):
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        heading = None if fence else _HEADING.fullmatch(line)
        if heading:
            if section.lines:
                yield section
            section = _Section(len(heading[1]), heading[2], number, [])
        section.lines.append(line)
    yield section
