"""Messages for a session sent from another terminal, one file each until the session takes them;
and what the session's commands have left in their /tmp.

A message is a file in `inbox/`, complete once it has its name; messages are read in the order of
their names. A file is removed only after its message is recorded as an event that carries the
file's name, so no message is lost or delivered twice.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agentcli.errors import SessionError
from agentcli.events import Event
from agentcli.events.actions import MessageAction
from agentcli.sessions.folder import make_folder
from agentcli.workspace.folders import walk
from agentcli.workspace.private import read_regular, replace_durably
from agentcli.workspace.scope import TMP

Delivery = Literal["steer", "queue"]
_LARGEST = 8 * 1024 * 1024


@dataclass(frozen=True)
class QueuedMessage:
    """A message in the inbox: `steer` reaches the model at its next step, `queue` after the
    turn."""

    id: str
    text: str
    delivery: Delivery
    image_urls: tuple[str, ...] = ()


def put(folder: Path, text: str, delivery: Delivery, image_urls: Sequence[str] = ()) -> str:
    """Leave a message, with images as data URLs, for the session in `folder`; return its id. Raises
    SessionError."""
    inbox = folder / "inbox"
    message_id = f"{time.time_ns():020d}-{secrets.token_hex(4)}"
    values = {"text": text, "delivery": delivery, "image_urls": list(image_urls)}
    body = json.dumps(values).encode("utf-8", "replace")
    if len(body) > _LARGEST:
        raise SessionError(f"a message can have at most {_LARGEST // 2**20} MB")
    make_folder(folder, anew=False)
    try:
        inbox.mkdir(mode=0o700, exist_ok=True)
        replace_durably(inbox / f"{message_id}.json", body)
    except OSError as error:
        raise SessionError(f"{inbox} can't be written: {error.strerror}") from error
    return message_id


def waiting(folder: Path) -> list[QueuedMessage]:
    """Return the waiting messages, oldest first, skipping files that are not valid messages."""
    try:
        names = sorted(entry.name for entry in os.scandir(folder / "inbox"))
    except OSError:
        return []
    found = (_read(folder / "inbox" / name) for name in names)
    return [message for message in found if message is not None]


def remove(folder: Path, message_id: str) -> None:
    (folder / "inbox" / f"{message_id}.json").unlink(missing_ok=True)


def already_recorded(events: Sequence[Event]) -> set[str]:
    """Return the ids of messages recorded as events. One that is still in the inbox is there
    because the session was killed before removing it."""
    return {e.inbox_id for e in events if isinstance(e, MessageAction) and e.inbox_id}


def _read(path: Path) -> QueuedMessage | None:
    if path.suffix != ".json":
        return None
    try:
        data, status = read_regular(path)
        values = json.loads(data)
        if status.st_size > _LARGEST or values["delivery"] not in ("steer", "queue"):
            return None
        images = values.get("image_urls", [])
        if not isinstance(images, list) or not all(isinstance(url, str) for url in images):
            return None
        return QueuedMessage(path.stem, str(values["text"]), values["delivery"], tuple(images))
    except (OSError, ValueError, KeyError, TypeError):
        return None


_MOST_ENTRIES = 2_000
_OF_TOOLS = re.compile(
    r"\..*|tmp[\w-]{6,}|pytest-of-.*|(?:pip|npm|uv|yarn|go|node)-.*|v8-compile-cache.*|hsperfdata_.*"
    r"|cc\w{6}\..*|__pycache__"
)
"""Names that programs use in /tmp for their own purposes."""


def left_in_tmp(folder: Path, since_s: float, shown: Collection[Path] = ()) -> tuple[str, ...]:
    """Return the names, as commands see them, of the top-level entries of the session's own /tmp
    (`folder`) that changed since `since_s` (epoch). Left out are the `shown` places, which really
    lie elsewhere, programs' own files, and folders without content."""
    places = {path.relative_to(TMP).parts[0] for path in shown if path.is_relative_to(TMP)}
    found = []
    left = _MOST_ENTRIES
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            left -= 1
            if left < 0:
                break
            if entry.name in places or _OF_TOOLS.fullmatch(entry.name):
                continue
            with suppress(OSError):
                is_new = entry.stat(follow_symlinks=False).st_mtime >= since_s
                if is_new and not _is_hollow(entry):
                    found.append(f"{TMP}/{entry.name}")
    return tuple(sorted(found))


def _is_hollow(entry: os.DirEntry[str]) -> bool:
    """Whether `entry` is a folder without a byte in it. The sandbox leaves such folders behind: to
    mount a folder of the real /tmp (the workspace, say), it makes an empty one to mount it on."""
    if not entry.is_dir(follow_symlinks=False):
        return False
    seen = 0
    for parent, _, names in walk(Path(entry.path)):
        for name in names:
            seen += 1
            if seen > _MOST_ENTRIES or (parent / name).lstat().st_size:
                return False
    return True
