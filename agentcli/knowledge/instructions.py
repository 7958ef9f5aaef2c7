"""Find instruction files: AGENTS.md and the like, from the project and from the user."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from agentcli.knowledge.facts import ascii_safe
from agentcli.workspace.text import UnreadableText, nothing_against, read_bounded

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


NAMES = ("AGENTS.md", "CLAUDE.md")
"""Names of instruction files; of each folder only the first one found counts."""
MAX_BYTES = 32 * 1024
"""Most bytes of all instruction files together; fewer for a model with a small window."""


@dataclass(frozen=True)
class InstructionFile:
    """One instruction file. `shown` is its path for display: relative to the repository, or with
    `~`."""

    shown: str
    text: str
    of_user: bool = False


@dataclass
class Instructions:
    """Instruction files in the order in which the model gets them: the user's own, then from the
    repository's root down to the working directory. `notices` tell the user what was left out."""

    files: list[InstructionFile] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)


def repository_root(workspace: Path) -> Path:
    """Return the nearest folder at or above `workspace` that holds `.git`, if that belongs to the
    user, root or the owner of `workspace`; else `workspace`. Otherwise anyone who can create a
    `.git` in a shared parent folder could add instructions."""
    for folder in (workspace, *workspace.parents):
        try:
            owner = (folder / ".git").lstat().st_uid
        except OSError:
            continue
        own = owner in (os.getuid(), workspace.stat().st_uid, 0)
        return folder if own else workspace
    return workspace


def find_instructions(
    workspace: Path,
    user_folder: Path | None,
    more_names: Sequence[str] = (),
    most_bytes: int = MAX_BYTES,
    objection: Callable[[Path], str] = nothing_against,
) -> Instructions:
    """Return the instruction files of `workspace`, a resolved folder, and of `user_folder`.

    `more_names` are further files at the root of the repository; `objection` says why one of the
    repository may not be read. If not all fit, the user's own
    files have priority, then the files nearest to `workspace`; a file that does not fit is cut at
    the end of a line.
    """
    found = Instructions()
    root = repository_root(workspace)
    wanted = list(_places(workspace, root, user_folder, more_names))
    room = most_bytes
    taken: dict[int, InstructionFile] = {}
    known: set[Path] = set()
    for number, (candidates, within) in sorted(
        enumerate(wanted), key=lambda item: (item[1][1] is not None, -item[0])
    ):
        objects = nothing_against if within is None else objection
        file = _first_of(
            candidates, within, (room, most_bytes), known, found.notices, root, objects
        )
        if file is not None:
            room -= len(file.text.encode())
            taken[number] = file
    found.files = [taken[number] for number in sorted(taken)]
    return found


def _places(
    workspace: Path, root: Path, user_folder: Path | None, more_names: Sequence[str]
) -> Iterator[tuple[list[Path], Path | None]]:
    """Yield the candidates of each place, of which the first found counts, with the folder that
    links among them must stay inside (None: anywhere)."""
    if user_folder is not None:
        yield [user_folder / NAMES[0]], None
    for name in more_names:
        yield [root / name], root
    below = workspace.relative_to(root).parts
    for depth in range(len(below) + 1):
        folder = root.joinpath(*below[:depth])
        yield [folder / name for name in NAMES], root


def _first_of(
    candidates: Sequence[Path],
    within: Path | None,
    left_of_all: tuple[int, int],
    known: set[Path],
    notices: list[str],
    root: Path,
    objection: Callable[[Path], str],
) -> InstructionFile | None:
    room, most_bytes = left_of_all
    for path in candidates:
        shown = shown_path(path, root)
        try:
            read = read_bounded(path, max(room, 1), within, objection)
        except UnreadableText as why:
            notices.append(f"{shown} {why}; it is left out")
            continue
        if read is None:
            continue
        if read.path in known or not read.text.strip():
            return None
        known.add(read.path)
        text = read.text
        if read.cut:
            text = text if room > 0 else ""
            left_out = read.size - len(text.encode())
            told = f"{left_out:,} of {read.size:,} bytes of {shown} are left out"
            notices.append(f"{told}: instruction files may have {most_bytes:,} bytes in all")
            text += f"[… {told} here; read the file for the rest …]\n"
        elif within is not None:
            text = condensed_instructions(text, shown)
        return InstructionFile(shown, text, of_user=within is None)
    return None


def shown_path(path: Path, root: Path | None) -> str:
    """Return `path` relative to `root` or to the home folder, escaped so that it is safe on any
    screen."""
    if root is not None and path.is_relative_to(root):
        return ascii_safe(str(path.relative_to(root)))
    home = os.environ.get("HOME")
    if home and path.is_relative_to(home):
        return ascii_safe(f"~/{path.relative_to(home)}")
    return ascii_safe(str(path))


_TAGS = (
    *("instructions", "skill", "skills", "notes", "past_session", "page"),
    *("tool_result", "tool_call"),
)
_TAG = re.compile(rf"<(?=\s*/?\s*(?:{'|'.join(_TAGS)})\b)", re.IGNORECASE)


def wrap_in_tag(tag: str, text: str, **attributes: str) -> str:
    """Return `text` between tags named `tag`. Tags inside it are escaped, so that no file can close
    its own tag and pose as somebody else after it."""
    given = "".join(f' {name}="{_attribute(value)}"' for name, value in attributes.items())
    return f"<{tag}{given}>\n{escape_tags(text).strip()}\n</{tag}>"


def escape_tags(text: str) -> str:
    """Return `text` with every one of our tags escaped, so that none works as a tag."""
    return _TAG.sub("<\\\\", text)


def digest(text: str) -> str:
    """Return a short identifier of `text`: the first 16 hex digits of its SHA-256."""
    return sha256(text.encode(errors="replace")).hexdigest()[:16]


def _attribute(value: str) -> str:
    return value.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
