"""Add skills from elsewhere: check them as untrusted files, and copy them as plain files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import NoReturn

from agentcli.errors import UsageError, os_error_text
from agentcli.knowledge.front_matter import parse
from agentcli.knowledge.skills import SKILL_FILE, TEXT_SUFFIXES, skill_name
from agentcli.workspace.bounded_files import UnreadableText, read_bounded
from agentcli.workspace.private import open_regular, remove_tree
from agentcli.workspace.rooted_folder import walk

MAX_FILES = 1_000
MAX_BYTES = 50_000_000
"""Most bytes of one skill."""
MOST_SKILLS = 100
_MOST_FOLDERS = 10_000
_LEFT_OUT = frozenset({".git", "__pycache__", ".DS_Store"})
_SKILL_BYTES = 1_000_000


@dataclass(frozen=True)
class SourceFile:
    """A file of a skill. `name` is relative to the skill's folder; `bytes` is its size."""

    name: str
    bytes: int
    runs: bool
    """Whether it may be run: it is executable, or not a text file."""


@dataclass(frozen=True)
class SkillSource:
    """A folder with a SKILL.md, all of whose files can be copied."""

    name: str
    description: str
    folder: Path
    files: tuple[SourceFile, ...]

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def scripts(self) -> list[str]:
        return [file.name for file in self.files if file.runs]

    def copy_to(self, target: Path, *, replace: bool = False) -> None:
        """Copy the skill to `target`, whole or not at all. Raises UsageError if `target` exists and
        `replace` is not set, or if the files have changed in the meantime."""
        if os.path.lexists(target) and not replace:
            raise UsageError(f"{target} already exists", hint="--replace overwrites it")
        try:
            target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            made = Path(mkdtemp(prefix=".adding-", dir=target.parent))
        except OSError as error:
            raise UsageError(f"{target} can't be made: {os_error_text(error)}") from error
        try:
            self._fill(made)
            made.chmod(0o755)
            remove_skill(target)
            made.rename(target)
        except OSError as error:
            raise UsageError(f"{self.name} can't be copied: {os_error_text(error)}") from error
        finally:
            remove_tree(made)

    def _fill(self, made: Path) -> None:
        """Copy the files into `made`. Raises OSError, UsageError."""
        for file in self.files:
            place = made / file.name
            place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            with open_regular(self.folder / file.name) as source:
                mode = 0o755 if os.fstat(source.fileno()).st_mode & 0o100 else 0o644
                data = source.read(file.bytes + 1)
            if len(data) != file.bytes:
                raise UsageError(f"{file.name} changed while it was copied", hint="try again")
            place.write_bytes(data)
            place.chmod(mode)


def remove_skill(place: Path) -> None:
    """Remove a skill's folder with everything in it, or just the link to one. Raises OSError."""
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir():
        remove_tree(place)
        if place.exists():
            raise OSError(f"{place} could not be removed completely")


def find_sources(root: Path) -> list[SkillSource]:
    """Return the skills in `root`: the folder itself if it is one, else folders below it. Raises
    UsageError for a skill that contains links, is too large or has no valid SKILL.md."""
    found = [_source(folder) for folder in _skill_folders(root)]
    if len(found) > MOST_SKILLS:
        raise UsageError(f"{root} has more than {MOST_SKILLS} skills", hint="name a folder in it")
    names = [source.name.casefold() for source in found]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"two skills are called {twice}", hint="name the folder of one of them")
    return found


def _skill_folders(root: Path) -> Iterator[Path]:
    """Yield the folders with a SKILL.md, except those inside the folder of another skill."""
    for seen, (place, folders, files) in enumerate(walk(root)):
        if seen >= _MOST_FOLDERS:
            raise UsageError(f"{root} has too many folders to search", hint="name a folder in it")
        if SKILL_FILE in files:
            folders.clear()
            yield Path(place)
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)


def _source(folder: Path) -> SkillSource:
    """Read the skill in `folder`. Raises UsageError."""
    files = tuple(sorted(_files(folder), key=lambda file: file.name))
    if sum(file.bytes for file in files) > MAX_BYTES:
        raise UsageError(f"{folder} is larger than {MAX_BYTES:,} bytes, the limit for one skill")
    try:
        read = read_bounded(folder / SKILL_FILE, _SKILL_BYTES, folder.resolve())
        if read is None or not read.text.strip():
            raise UnreadableText("is empty")
        header = parse(read.text)
    except UnreadableText as why:
        raise UsageError(f"{folder / SKILL_FILE} {why}") from why
    return SkillSource(
        skill_name(header, folder.resolve().name), header.text("description"), folder, files
    )


def _files(root: Path) -> Iterator[SourceFile]:
    """Yield the files below `root`. Raises UsageError for anything but files and folders: a link
    may lead anywhere on this machine, and a pipe has no content."""
    count = 0
    for place, folders, files in walk(root, _refuse):
        folders[:] = [name for name in folders if name not in _LEFT_OUT]
        for entry in (*folders, *(name for name in files if name not in _LEFT_OUT)):
            path = Path(place, entry)
            name = os.path.relpath(path, root)
            info = path.lstat()
            if not name.isprintable():
                raise UsageError(f"{root} has a file with an odd name: {name!r}")
            if stat.S_ISLNK(info.st_mode):
                raise UsageError(f"{root}/{name} is a link, and links are not followed")
            if stat.S_ISDIR(info.st_mode):
                continue
            if not stat.S_ISREG(info.st_mode):
                raise UsageError(f"{root}/{name} is neither a file nor a folder")
            count += 1
            if count > MAX_FILES:
                raise UsageError(f"{root} has more than {MAX_FILES:,} files")
            runs = bool(info.st_mode & 0o111) or not name.endswith(TEXT_SUFFIXES)
            yield SourceFile(name, info.st_size, runs)


def _refuse(error: OSError) -> NoReturn:
    raise UsageError(f"a folder can't be read: {os_error_text(error)}") from error
