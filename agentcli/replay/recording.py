"""Recordings: one file that holds a session with all that is needed to repeat it.

It consists of lines of JSON: a header; a line for each file that was there when the task began; one
for each event; and, with the event in `at`, one for each file that had changed at that checkpoint.
`scripted/FILE` plays the replies in it.
"""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from agentcli.errors import SessionError
from agentcli.events import Event, OpaqueEvent, event_from_dict, event_to_dict
from agentcli.events.observations import SessionStartedObservation
from agentcli.events.recorded_replies import RECORDING, RECORDING_FORMAT, is_newer
from agentcli.replay.recorded_file import RecordedFile
from agentcli.sessions.transfer.importing import require_plain, require_sane
from agentcli.workspace.private import open_regular

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
