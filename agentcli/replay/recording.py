"""Recordings: one file that holds a session with all that is needed to repeat it.

It consists of lines of JSON: a header; a line for each file that was there when the task began; one
for each event; and, with the event in `at`, one for each file that had changed at that checkpoint.
`scripted/FILE` plays the replies in it.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import stat
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from agentcli.errors import SessionError
from agentcli.events import Event, OpaqueEvent, event_from_dict, event_to_dict
from agentcli.events.conversation import RECORDING, RECORDING_FORMAT, is_newer
from agentcli.events.observations import SessionStartedObservation
from agentcli.sessions.transfer import require_plain, require_sane
from agentcli.workspace.folders import FolderWriter, walk
from agentcli.workspace.private import open_regular, read_regular

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
    recorded = {file.path: file for file in files}
    final = _fitting(recorded, str(workspace.relative_to(top)))
    modes: dict[bytes, int] = {}
    writer = FolderWriter(top)
    try:
        for name, file in final.items():
            path = os.fsencode(name)
            if not file.gone:
                modes |= dict.fromkeys(_make_room(writer, path), _OF_FOLDERS)
            if file.is_folder:
                if writer.make_folder(path) or name in recorded:
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


def _fitting(recorded: Mapping[str, RecordedFile], workspace: str) -> dict[str, RecordedFile]:
    """Return what to write by path. Raises SessionError if there is something below a path that is
    not a folder, or if the session's `workspace` is none: it would work elsewhere."""
    final = {} if workspace == "." else {workspace: RecordedFile(workspace, mode=_OF_FOLDERS)}
    final |= recorded
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


_MOST_BYTES = 256 * 1024 * 1024
_SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,60}")
_NO_TEXTS = ("settings", "hooked", "event_count")
_UPGRADE = "upgrade agent to use it"


@dataclass(frozen=True)
class RecordingHeader:
    """The first line. `workspace` is where the session worked, `root` the top of the repository
    around it, or the workspace if there is none; `settings` are those that its results depend on,
    by dotted key."""

    session_id: str
    version: str
    model: str
    task: str
    workspace: str
    root: str
    sandbox: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    hooked: bool = False
    """Whether hooks of the user ran around the calls and may have changed files."""
    event_count: int = 0
    """Shows whether the file was cut off between two lines; 0: not known."""

    def workspace_in(self, top: Path) -> Path:
        """Return the workspace in a copy of the root at `top`. Raises SessionError if it does not
        lie in the root."""
        place = Path(os.path.normpath(top / os.path.relpath(self.workspace, self.root)))
        if not place.is_relative_to(top):
            raise SessionError(f"{self.workspace} is no folder in {self.root}")
        return place


@dataclass(frozen=True)
class Recording:
    """`files` are those at the start; `changes` are by the event of the checkpoint."""

    header: RecordingHeader
    files: tuple[RecordedFile, ...]
    events: list[Event]
    changes: Mapping[int, list[RecordedFile]]


def recording_lines(
    header: RecordingHeader,
    files: Iterable[RecordedFile],
    events: Iterable[Event],
    changes: Mapping[int, Iterable[RecordedFile]],
) -> Iterator[str]:
    """Yield the lines of a recording, each a JSON object."""
    yield json.dumps({RECORDING: RECORDING_FORMAT, **asdict(header)})
    for file in files:
        yield json.dumps(file.to_json())
    for event in events:
        yield json.dumps({"event": event_to_dict(event)})
        for file in changes.get(event.id, ()):
            yield json.dumps({"at": event.id, **file.to_json()})


def read_recording(path: Path) -> Recording:
    """Return the recording in a file. Raises SessionError, which names the line, if it is not a
    recording, is damaged or was made by a newer version."""
    try:
        with open_regular(path, follow=True) as file:
            data = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise SessionError(f"{path} can't be read: {error.strerror}") from error
    if len(data) > _MOST_BYTES:
        raise SessionError(f"{path} holds more than {_MOST_BYTES >> 20} MB")
    lines = [line for line in data.split(b"\n") if line.strip()]
    reader = _Lines()
    try:
        header = _header(json.loads(lines[0].decode()) if lines else None)
        for line in lines[1:]:
            reader.number += 1
            reader.take(json.loads(line.decode()))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise SessionError(f"{path}, line {reader.number}: {_in_words(error)}") from error
    except SessionError as error:
        raise SessionError(f"{path}: {error.message}", hint=error.hint) from error
    if not (reader.events and isinstance(reader.events[0], SessionStartedObservation)):
        raise SessionError(f"{path}: it does not begin as a session does")
    if header.event_count not in (0, len(reader.events)):
        of = f"{len(reader.events)} of {header.event_count} events"
        raise SessionError(f"{path}: it is cut off, with {of}")
    return Recording(header, tuple(reader.files), reader.events, reader.changes)


class _Lines:
    """Collects what the lines after the header hold; `number` is the newest line's, from 1."""

    def __init__(self) -> None:
        self.number = 1
        self.files: list[RecordedFile] = []
        self.events: list[Event] = []
        self.changes: dict[int, list[RecordedFile]] = defaultdict(list)

    def take(self, line: Any) -> None:
        if not isinstance(line, dict):
            raise ValueError("it is no JSON object")
        require_plain(line)
        if "event" in line:
            self.events.append(self._event(line["event"]))
        elif "file" in line and "at" not in line:
            self.files.append(RecordedFile.from_json(line))
        elif "file" in line and type(line["at"]) is int:
            self.changes[line["at"]].append(RecordedFile.from_json(line))
        else:
            raise ValueError("it is neither a file nor an event")

    def _event(self, data: Any) -> Event:
        event = event_from_dict(data)
        if isinstance(event, OpaqueEvent):
            raise SessionError(f"event {event.id} is of a newer version of agent", hint=_UPGRADE)
        if event.id != len(self.events):
            raise ValueError(f"event {event.id} stands where event {len(self.events)} belongs")
        require_sane(event)
        return event


def _header(line: Any) -> RecordingHeader:
    if not isinstance(line, dict) or RECORDING not in line:
        raise SessionError(
            "it is no recording", hint="agent run --record FILE and agent replay --save make one"
        )
    if is_newer(line):
        raise SessionError(
            f"it was recorded by a newer version of agent (format {line[RECORDING]}, this one "
            f"knows {RECORDING_FORMAT})",
            hint=_UPGRADE,
        )
    if line[RECORDING] != RECORDING_FORMAT:
        raise ValueError("its first line is damaged")
    known = {each.name for each in fields(RecordingHeader)}
    header = RecordingHeader(**{key: value for key, value in line.items() if key in known})
    texts = (value for key, value in asdict(header).items() if key not in _NO_TEXTS)
    is_sound = isinstance(header.settings, dict) and type(header.event_count) is int
    if not (is_sound and all(isinstance(value, str) for value in texts)):
        raise ValueError("its first line is damaged")
    for place in (header.root, header.workspace):
        if not place.startswith("/") or ".." in place.split("/"):
            raise ValueError(f"{place!r} is no folder")
    if not _SESSION_ID.fullmatch(header.session_id):
        raise ValueError(f"{header.session_id!r} is no id of a session")
    return header


def _in_words(error: BaseException) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"it is no JSON ({error.msg})"
    if isinstance(error, UnicodeDecodeError):
        return "it is no UTF-8"
    return str(error)
