"""What this session knows of files, and the way to them for tools."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentcli.errors import ToolError
from agentcli.events import Event
from agentcli.events.observations import (
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)
from agentcli.runtime.names import display_path, parse_path, size_text
from agentcli.runtime.text import (
    MAX_FILE_BYTES,
    TextFile,
    decode,
    digest,
    encode,
    os_errors_told,
    read_bytes,
    read_text,
    text_file,
    write_text,
)

__all__ = [
    "MAX_FILE_BYTES",
    "Edit",
    "FileLedger",
    "TextFile",
    "decode",
    "digest",
    "display_path",
    "os_errors_told",
    "parse_path",
    "read_bytes",
    "read_text",
    "size_text",
    "text_file",
    "undo_text",
    "write_text",
]

MAX_UNDO_STEPS = 20


@dataclass(frozen=True, slots=True)
class Edit:
    """How to take an edit back. `text` is None when it was too long to keep."""

    text: str | None
    digest_before: str
    digest_after: str


class FileLedger:
    """What this session knows of files: each one's digest as last seen or left, and its edits.

    `writable` folders bound where writes may end up (None: anywhere). `mounts` says where a folder
    of the commands' view really is, such as their own /tmp. Both hold for the session; the rest is
    rebuilt by `observe`.
    """

    def __init__(
        self,
        workspace: Path,
        *,
        writable: Sequence[Path] | None = None,
        mounts: Mapping[Path, Path] | None = None,
    ) -> None:
        self.workspace = workspace
        self.writable = writable
        self._mounts = dict(mounts or {})
        self._digests: dict[str, str] = {}
        self._edits: defaultdict[str, deque[Edit]] = defaultdict(
            lambda: deque(maxlen=MAX_UNDO_STEPS)
        )

    def locate(self, text: str) -> Path:
        """The file that the model means by `text`, absolute, symlinks not yet followed."""
        path = self.workspace / parse_path(text)
        for seen, real in self._mounts.items():
            if path.is_relative_to(seen) and ".." not in path.parts:
                return real / path.relative_to(seen)
        return path

    def show(self, path: Path) -> str:
        """How the model knows `path`; `locate` takes it back."""
        for seen, real in self._mounts.items():
            if path.is_relative_to(real):
                return display_path(seen / path.relative_to(real))
        return display_path(path, self.workspace)

    def write(self, path: Path, text: str, like: TextFile | None) -> str:
        """`write_text` where this session may write."""
        return write_text(path, text, like, within=self.writable)

    def seen(self, path: Path, digest: str) -> None:
        self._digests[_key(path)] = digest

    def check(self, path: Path, current: str | None = None, *, must_be_known: bool = True) -> None:
        """ToolError unless the existing file is as this session knows it, if it knows it at all;
        `current` is its digest if the caller has just read it."""
        known = self._digests.get(_key(path))
        if known is None and not must_be_known:
            return
        if known is None:
            raise ToolError(
                f"{self.show(path)} was not read in this session yet: read it first.",
                error_id="file_not_read",
            )
        if known != (current or digest(read_bytes(path)[0])):
            raise ToolError(
                f"{self.show(path)} was changed on disk since you last read or wrote it, by a "
                "command or by someone else. Nothing was written: read it again first.",
                error_id="file_changed",
            )

    def edited(self, path: Path, before: str | None, digest_after: str) -> None:
        """An edit was made of a file whose text, endings included, was `before`."""
        key = _key(path)
        self._edits[key].append(Edit(before, self._digests.get(key, ""), digest_after))
        self._digests[key] = digest_after

    def last_edit(self, path: Path) -> Edit | None:
        edits = self._edits.get(_key(path))
        return edits[-1] if edits else None

    def undone(self, path: Path, digest: str) -> None:
        """The last edit was taken back, which left the file with `digest`."""
        self._edits[_key(path)].pop()
        self._digests[_key(path)] = digest

    def observe(self, event: Event) -> None:
        """Learn from a recorded event what the tool that caused it told the ledger itself."""
        if not isinstance(event, FileReadObservation | FileWriteObservation | FileEditObservation):
            return
        if not event.digest:
            return
        path = self.locate(event.path)
        if not isinstance(event, FileEditObservation):
            self.seen(path, event.digest)
            return
        last = self.last_edit(path)
        if event.old_content is None and last and last.digest_before == event.digest:
            self.undone(path, event.digest)
        else:
            self.edited(path, event.old_content, event.digest)


def undo_text(path: Path, edit: Edit, now: TextFile) -> tuple[str, TextFile]:
    """The text before `edit` and the form that gives the same bytes again: the edit may have taken
    away the only character that told the encoding."""
    assert edit.text is not None, "callers have refused edits that were too long to keep"
    forms = [now, TextFile(""), TextFile("", "latin-1")]
    for form in forms:
        like = replace(form, newline=None)
        with contextlib.suppress(ToolError):
            if digest(encode(edit.text, like, display_path(path))) == edit.digest_before:
                return edit.text, like
    return edit.text, replace(now, newline=None)


def _key(path: Path) -> str:
    # Even this may fail: when a symlink goes away while it is followed.
    with os_errors_told(display_path(path)):
        return os.path.realpath(path)
