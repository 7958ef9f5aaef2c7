"""Files of a workspace as lines of a recording, and written back to a folder."""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from agentcli.files.private import read_regular

_USUAL = 0o644
_PERMISSIONS = 0o777


@dataclass(frozen=True)
class RecordedFile:
    """A file, symlink or folder; `path` is relative to the top of the workspace. A file has
    `data`, a symlink its target in `link`, a folder neither. `gone`: there is none at this path."""

    path: str
    data: bytes | None = None
    link: str | None = None
    mode: int = _USUAL
    gone: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return its line. Text stays text, so that recordings can be read and diffed."""
        line: dict[str, Any] = {"file": self.path}
        if self.gone:
            return line | {"gone": True}
        if self.link is not None:
            return line | {"link": self.link}
        if self.mode != _USUAL:
            line["mode"] = f"{self.mode:o}"
        if self.data is None:
            return line | {"folder": True}
        try:
            return line | {"text": self.data.decode()}
        except UnicodeDecodeError:
            return line | {"base64": base64.b64encode(self.data).decode()}

    @classmethod
    def from_json(cls, line: Mapping[str, Any]) -> RecordedFile:
        """Return the file in a line. Raises ValueError if it has none, or its path leads out of the
        folder."""
        path = line.get("file")
        if not isinstance(path, str) or not _stays_inside(path):
            raise ValueError(f"{path!r} is no path in the workspace")
        if line.get("gone") is True:
            return cls(path, gone=True)
        if "link" in line:
            return cls(path, link=_text(line, "link"))
        mode = _mode(_text(line, "mode")) if "mode" in line else _USUAL
        if line.get("folder") is True:
            return cls(path, mode=mode)
        if "base64" in line:
            try:
                return cls(path, base64.b64decode(_text(line, "base64"), validate=True), mode=mode)
            except binascii.Error as error:
                raise ValueError(f"{path}: its base64 is damaged") from error
        return cls(path, _text(line, "text").encode(errors="surrogateescape"), mode=mode)


def _text(line: Mapping[str, Any], name: str) -> str:
    value = line.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{line['file']}: {name} must be text")
    return value


def _mode(text: str) -> int:
    try:
        return int(text, 8) & _PERMISSIONS
    except ValueError as error:
        raise ValueError(f"{text!r} is no mode of a file") from error


def _stays_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    plain = path == str(pure) and path != "." and "\0" not in path
    return plain and not pure.is_absolute() and ".." not in pure.parts


def files_below(top: Path) -> Iterator[RecordedFile]:
    """Yield the files and symlinks in `top` in the order of their names, and folders that are empty
    or have an unusual mode. Special files are left out. Raises OSError."""
    for parent, folders, names in os.walk(top):
        here = Path(parent)
        folders.sort()
        if here != top:
            mode = stat.S_IMODE(here.lstat().st_mode)
            if not (folders or names) or mode & _PERMISSIONS != 0o755:
                yield RecordedFile(str(here.relative_to(top)), mode=mode)
        for name in sorted([*names, *(each for each in folders if (here / each).is_symlink())]):
            if (file := recorded(here / name, str((here / name).relative_to(top)))) is not None:
                yield file


def recorded(place: Path, path: str) -> RecordedFile | None:
    """Return what is at `place`; None for a special file. Raises OSError."""
    try:
        facts = place.lstat()
    except FileNotFoundError:
        return RecordedFile(path, gone=True)
    mode = stat.S_IMODE(facts.st_mode) & _PERMISSIONS
    if stat.S_ISLNK(facts.st_mode):
        return RecordedFile(path, link=str(place.readlink()))
    if stat.S_ISDIR(facts.st_mode):
        return RecordedFile(path, mode=mode)
    if stat.S_ISREG(facts.st_mode):
        return RecordedFile(path, read_regular(place)[0], mode=mode)
    return None


def write_below(top: Path, files: Iterable[RecordedFile]) -> None:
    """Write these files below `top`, which nobody else uses. Whatever the recording says, no
    symlink is followed: links are made last, and nothing is written below one. Raises OSError."""
    links, modes = [], []
    for file in files:
        place = top / file.path
        _clear(top, place, keep_folder=file.data is None and file.link is None and not file.gone)
        if file.gone:
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if file.link is not None:
            links.append((place, file.link))
        elif file.data is None:
            place.mkdir(exist_ok=True)
            modes.append((place, file.mode))
        else:
            place.write_bytes(file.data)
            place.chmod(file.mode)
    for place, link in links:
        place.symlink_to(link)
    for place, mode in reversed(modes):
        place.chmod(mode)


def _clear(top: Path, place: Path, *, keep_folder: bool) -> None:
    """Remove what is at `place`, and any symlink on the way to it."""
    relative = place.relative_to(top)
    for part in [*reversed(relative.parents)][1:]:
        if (top / part).is_symlink():
            (top / part).unlink()
    if place.is_symlink() or place.is_file():
        place.unlink()
    elif place.is_dir() and not keep_folder:
        shutil.rmtree(place)
