"""Find instruction files: AGENTS.md and the like, from the project and from the user."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.knowledge.outline import condensed_instructions
from agentcli.knowledge.workspace_facts import ascii_safe
from agentcli.workspace.bounded_files import UnreadableText, nothing_against, read_bounded

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
