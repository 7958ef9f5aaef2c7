"""What a session knows about files, and the access of its tools to them."""

from __future__ import annotations

import contextlib
import os
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, NamedTuple

from agentcli.errors import ToolError
from agentcli.events import Event
from agentcli.events.observations import (
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
)
from agentcli.workspace.conventions import Conventions, conventions
from agentcli.workspace.encodings import CANDIDATES
from agentcli.workspace.guard import Guard
from agentcli.workspace.names import display_path, in_outputs, output_name, parse_path, size_text
from agentcli.workspace.opening import Entry, list_folder, open_file
from agentcli.workspace.replacing import replace_file
from agentcli.workspace.scope import AccessScope
from agentcli.workspace.text import (
    MAX_FILE_BYTES,
    TextFile,
    digest,
    encode,
    os_errors_told,
    text_file,
    text_file_in,
    to_encoding,
)

MAX_UNDO_STEPS = 20
_MAX_KEPT_BYTES = 256_000
"""Longest content of a file that is kept, to tell later what has changed since."""
_MAX_KEPT_FILES = 64


class Written(NamedTuple):
    """The digest of a written file, and what the writer should know of how it was written."""

    digest: str
    notes: tuple[str, ...]

    @property
    def note(self) -> str:
        """The notes in parentheses after a space; "" if there are none."""
        return f" ({'; '.join(self.notes)})" if self.notes else ""


@dataclass(frozen=True, slots=True)
class Edit:
    """How to undo an edit. `text` is None if it was too long to keep."""

    text: str | None
    digest_before: str
    digest_after: str


class FileTracker:
    """What a session knows about files: the digest of each as last seen or written, and its edits.

    `scope` says what may be read and written (None: everything but devices and the like), and where
    the folders in the view of commands really are, such as their own /tmp. It holds for the whole
    session; `observe` rebuilds the rest.
    """

    def __init__(
        self, workspace: Path, scope: AccessScope | None = None, outputs: Path | None = None
    ) -> None:
        """`outputs` is the folder that the model knows by a name of its own."""
        self.workspace = workspace
        self._outputs = outputs
        self.guard = Guard(scope)
        self._scope = scope
        self._digests: dict[str, str] = {}
        self._contents: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._edits: defaultdict[str, deque[Edit]] = defaultdict(
            lambda: deque(maxlen=MAX_UNDO_STEPS)
        )

    def locate(self, text: str) -> Path:
        """Return the file that the model means by `text`: absolute, symlinks not yet followed."""
        if self._outputs is not None and (rest := in_outputs(text)) is not None:
            return self._outputs / parse_path(rest or ".")
        path = self.workspace / parse_path(text)
        return self._scope.real_path(path) if self._scope else path

    def show(self, path: Path) -> str:
        """Return the model's name for `path`; `locate` reverses it."""
        if self._outputs is not None and path.parent == self._outputs:
            return output_name(path)
        seen = self._scope.seen_path(path) if self._scope else path
        return display_path(seen, self.workspace)

    def require_readable(self, path: Path) -> Path:
        """Return the resolved target of `path`, existing or not. Raises ToolError if it names or
        leads to what may not be read."""
        self.guard.judge_name(path)
        with os_errors_told(self.show(path)):
            target = Path(os.path.realpath(path))
            self.guard.judge_reading(target)
        return target

    @contextlib.contextmanager
    def opened(self, path: Path) -> Iterator[BinaryIO]:
        """Open a regular file for reading. Raises ToolError if it is anything else or may not be
        read."""
        shown = display_path(path)
        with os_errors_told(shown):
            self.guard.judge_name(path)
            with open(open_file(path, self.guard.judge_reading), "rb") as file:
                self.guard.judge_inode(os.fstat(file.fileno()), shown)
                yield file

    def read_bytes(self, path: Path, limit: int = MAX_FILE_BYTES) -> bytes:
        """Return all bytes of a regular file. Raises ToolError if it is anything else, has more
        than `limit` bytes, or may not be read."""
        with self.opened(path) as file:
            size = os.fstat(file.fileno()).st_size
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ToolError(
                f"{display_path(path)} has {size_text(max(size, len(data)))}, more than the "
                f"{size_text(limit)} that the file tools take; use bash (grep, head, tail, "
                "sed -n '1,200p', cut -c).",
                error_id="file_too_large",
            )
        return data

    def read_text(self, path: Path, encoding: str | None = None) -> TextFile:
        """Read a text file, in this `encoding` if the caller knows it. Raises ToolError if it is
        not a regular text file of at most MAX_FILE_BYTES, or may not be read."""
        data = self.read_bytes(path)
        file = self.text_of(path, data)
        shown = display_path(path)
        if file is None:
            raise ToolError(f"{shown} is a binary file, not text.", error_id="binary_file")
        return text_file_in(data, encoding, file, shown) if encoding else file

    def text_of(self, path: Path, data: bytes) -> TextFile | None:
        """Split the content of the file at `path` into a TextFile; None for binary data."""
        return text_file(data, path.name, self.conventions(path).charset)

    def conventions(self, path: Path) -> Conventions:
        """Return what .editorconfig and .gitattributes say of a file, existing or not."""

        def objection(file: Path) -> str:
            return "" if self.guard.may_read(file) else "may not be read"

        return conventions(Path(os.path.realpath(path)), objection)

    def current_text(self, name: str) -> str | None:
        """Return the content of the file that the model means by `name`; None if it can't be
        read."""
        try:
            return self.read_text(self.locate(name)).text
        except (ToolError, OSError):
            return None

    def list_folder(self, path: Path) -> list[Entry]:
        """Return the readable entries of a folder, sorted by name. Raises ToolError."""
        with os_errors_told(self.show(path)):
            self.guard.judge_name(path)
            place, entries = list_folder(path, self.guard.judge_reading)
        return [entry for entry in entries if self.guard.may_read(place / entry.name)]

    def write(
        self, path: Path, text: str, like: TextFile | None, encoding: str | None = None
    ) -> Written:
        """Replace or create a file in one step if possible.

        Encoding, BOM and line endings come from `like`, the mode from the file that is replaced; a
        new file follows .editorconfig and .gitattributes. `encoding` is what the caller wants
        instead. If `path` is a symlink, it stays and its target is written. Raises ToolError if
        `path` leads to what may not be written, even if one of its folders becomes a symlink
        meanwhile.
        """
        shown = display_path(path)
        notes: list[str] = []
        if like is None:
            like, text, notes = self.conventions(path).applied(text)
        if encoding:
            like = to_encoding(like, encoding)
        data, used = encode(text, like, path.name, shown)
        if used != like.encoding or like.chosen:
            notes.append(f"encoded as {used}")
        with os_errors_told(shown):
            self.guard.judge_name(path)
            target = Path(os.path.realpath(path))
            self.guard.judge_writing(target)
            roots = self._scope.writable if self._scope else (self.workspace,)
            notes.append(replace_file(target, data, shown, self.guard.judge_writing, roots))
        made = digest(data)
        self._keep(_key(path), made, data)
        return Written(made, tuple(filter(None, notes)))

    def seen(self, path: Path, digest: str, data: bytes | None = None) -> None:
        """Record that the model knows the file with this digest, and what it contains."""
        key = _key(path)
        self._digests[key] = digest
        if data is not None:
            self._keep(key, digest, data)

    def _keep(self, key: str, digest: str, data: bytes) -> None:
        self._contents.pop(key, None)
        if len(data) <= _MAX_KEPT_BYTES:
            self._contents[key] = digest, data
            if len(self._contents) > _MAX_KEPT_FILES:
                self._contents.popitem(last=False)

    def has_changed(self, path: Path, current: str) -> bool:
        """Whether the file, whose digest is now `current`, is not as the session last saw it."""
        return self._digests.get(_key(path), current) != current

    def last_seen(self, path: Path) -> TextFile | None:
        """Return the file as this session last saw it; None if that was not kept, or is no
        text."""
        key = _key(path)
        kept, data = self._contents.get(key, ("", b""))
        return self.text_of(path, data) if kept and kept == self._digests.get(key) else None

    def check(self, path: Path, current: str | None = None, *, must_be_known: bool = True) -> None:
        """Raise ToolError unless the existing file is as this session last saw it. An unknown file
        fails too if it `must_be_known`. `current` is its digest if the caller has just read it."""
        known = self._digests.get(_key(path))
        if known is None and not must_be_known:
            return
        if known is None:
            raise ToolError(
                f"{self.show(path)} was not read in this session yet: read it first.",
                error_id="file_not_read",
            )
        if known != (current or digest(self.read_bytes(path))):
            raise ToolError(
                f"{self.show(path)} was changed on disk since you last read or wrote it, by a "
                "command or by someone else. Nothing was written: read it again first.",
                error_id="file_changed",
            )

    def edited(
        self, path: Path, before: str | None, digest_after: str, digest_before: str = ""
    ) -> None:
        """Record an edit of a file whose text was `before`, line endings included."""
        key = _key(path)
        was = digest_before or self._digests.get(key, "")
        self._edits[key].append(Edit(before, was, digest_after))
        self._digests[key] = digest_after

    def last_edit(self, path: Path) -> Edit | None:
        edits = self._edits.get(_key(path))
        return edits[-1] if edits else None

    def undone(self, path: Path, digest: str) -> None:
        """Record that the last edit was undone, which left the file with `digest`."""
        key = _key(path)
        # A folder of the path may have become a symlink to elsewhere meanwhile.
        if edits := self._edits.get(key):
            edits.pop()
        self._digests[key] = digest

    def observe(self, event: Event) -> None:
        """Learn from a recorded event what the tool that caused it noted when it ran."""
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
            self.edited(path, event.old_content, event.digest, event.digest_before)


def undo_text(path: Path, edit: Edit, now: TextFile) -> tuple[str, TextFile]:
    """Return the text before `edit` and the form that reproduces the same bytes. The edit may have
    removed the only character that revealed the encoding."""
    assert edit.text is not None, "callers have refused edits that were too long to keep"
    now = replace(now, newline=None, guessed=False)
    for form in (now, *(replace(now, encoding=each, bom=b"") for each in _UNDONE_TO)):
        with contextlib.suppress(ToolError):
            data, _ = encode(edit.text, form, path.name, display_path(path))
            if digest(data) == edit.digest_before:
                return edit.text, form
    return edit.text, now


_UNDONE_TO = ("utf-8", "cp1252", "latin-1", *CANDIDATES)


def _key(path: Path) -> str:
    # Even this may fail, if a symlink vanishes while it is followed.
    with os_errors_told(display_path(path)):
        return os.path.realpath(path)
