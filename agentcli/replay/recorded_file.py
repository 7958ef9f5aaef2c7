"""Files of a workspace as lines of a recording, and written back to a folder."""

from __future__ import annotations

import base64
import binascii
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from agentcli.errors import SessionError
from agentcli.workspace.folders import FolderWriter, walk
from agentcli.workspace.private import read_regular

_USUAL = 0o644
_OF_FOLDERS = 0o755
_PERMISSIONS = 0o777
_LONGEST = 4096
"""Most characters of a path that system calls take."""


@dataclass(frozen=True)
class RecordedFile:
    """A file, symlink or folder; `path` is relative to the top of the workspace. A file has
    `data`, a symlink its target in `link`, a folder neither. `gone`: there is none at this path."""

    path: str
    data: bytes | None = None
    link: str | None = None
    mode: int = _USUAL
    gone: bool = False

    @property
    def is_folder(self) -> bool:
        return self.data is None and self.link is None and not self.gone

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
    plain = path == str(pure) and path != "." and "\0" not in path and len(path) < _LONGEST
    return plain and not pure.is_absolute() and ".." not in pure.parts


def files_below(top: Path) -> Iterator[RecordedFile]:
    """Yield the files and symlinks in `top` in the order of their names, and folders that are empty
    or have an unusual mode. Special files are left out. Raises OSError."""
    for here, folders, names in walk(top):
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


def write_below(top: Path, files: Iterable[RecordedFile], workspace: Path) -> None:
    """Write these files and the folder `workspace` below `top`, and nothing anywhere else: no
    symlink is followed, whoever made it. What is there and not a folder makes way for one. Raises
    SessionError before anything is written if they don't fit together, OSError."""
    worked_in = str(workspace.relative_to(top))
    final = _fitting(files, worked_in)
    modes: dict[bytes, int] = {}
    writer = FolderWriter(top)
    try:
        for name, file in final.items():
            path = os.fsencode(name)
            if not file.gone:
                modes |= dict.fromkeys(_make_room(writer, path), _OF_FOLDERS)
            if file.is_folder:
                if writer.make_folder(path) or name != worked_in:
                    modes[path] = file.mode
                continue
            writer.remove_all(path)
            if file.link is not None:
                writer.make_link(path, os.fsencode(file.link))
            elif file.data is not None:
                writer.write_file(path, file.mode, partial(_fill, data=file.data))
        failed: dict[bytes, str] = {}
        writer.set_modes(modes, failed)
    finally:
        writer.close()
    for path, why in failed.items():
        raise OSError(f"{os.fsdecode(path)}: {why}")


def _fitting(files: Iterable[RecordedFile], workspace: str) -> dict[str, RecordedFile]:
    """Return the last entry of each path. Raises SessionError if there is one below a path that is
    then no folder, or if the session's `workspace` is none: it would work elsewhere."""
    final = {} if workspace == "." else {workspace: RecordedFile(workspace, mode=_OF_FOLDERS)}
    final |= {file.path: file for file in files}
    if workspace in final and not final[workspace].is_folder:
        raise SessionError(f"its files can't be written: {workspace} is no folder to work in")
    for path, file in final.items():
        for above in PurePosixPath(path).parents:
            other = final.get(str(above))
            if other is not None and not other.is_folder and not file.gone:
                why = f"{path} lies below {other.path}, which is no folder"
                raise SessionError(f"its files can't be written: {why}")
    return final


def _make_room(writer: FolderWriter, path: bytes) -> list[bytes]:
    """Make the folders above `path`; return those that were not there."""
    try:
        writer.place(path)
    except (FileNotFoundError, NotADirectoryError):
        parts = path.split(b"/")
        above = [b"/".join(parts[:count]) for count in range(1, len(parts))]
        return [folder for folder in above if writer.make_folder(folder)]
    return []


def _fill(file: BinaryIO, data: bytes) -> None:
    file.write(data)
