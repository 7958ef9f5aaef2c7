"""What a user says to a run: words on the command line, and standard input as a task or as material
for one."""

from __future__ import annotations

import codecs
import os
import select
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

from agentcli.errors import UsageError
from agentcli.ui.text import say_note

if TYPE_CHECKING:
    from agentcli.app.agent_builder import AgentBuilder
    from agentcli.app.open_session import OpenSession
    from agentcli.app.requirements import RequirementSpec

_CHUNK = 1 << 16
_MOST_BYTES = 50_000_000
"""The most that is read, in bytes; as much is kept of a command's output."""
_IN_MEMORY = 1_000_000
_EXCERPT_SHARE = 4
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass
class Piped:
    """What came through the pipe, kept in memory or, if it is long, in an unnamed file. `whole` is
    False if the end was not waited for."""

    whole: bool = True
    size: int = 0
    _file: SpooledTemporaryFile[bytes] = field(
        default_factory=partial(SpooledTemporaryFile, _IN_MEMORY)
    )

    def copied(self) -> Piped:
        copy = Piped(self.whole)
        for data in self._chunks():
            copy.add(data)
        return copy

    def add(self, data: bytes) -> None:
        """Append data; only allowed before anything is read."""
        self._file.write(data)
        self.size += len(data)

    def encoding(self) -> str | None:
        """Return the encoding of its text; None if it is not text."""
        start = self._read(0, 8192)
        tried = _UTF16.get(start[:2], "utf-8")
        if self._is_text(tried):
            return tried
        odd = sum(byte < 32 and byte not in (9, 10, 12, 13, 27) for byte in start)
        return "latin-1" if self._is_text("latin-1") and odd * 50 < len(start) else None

    def text(self, encoding: str, start: int = 0, size: int = -1) -> str:
        """Return the text of `size` bytes from `start` on, without characters cut off there."""
        # In UTF-16, start at a character, not at its second byte.
        start -= start % 2 * encoding.startswith("utf-16")
        return self._read(start, size).decode(encoding, "ignore").removeprefix("\ufeff")

    def is_blank(self) -> bool:
        return not any(data.strip() for data in self._chunks())

    def keep(self, path: Path) -> Path:
        """Write all of it to the file `path`."""
        with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
            self._file.seek(0)
            shutil.copyfileobj(self._file, file, _CHUNK)
        return path

    def _is_text(self, encoding: str) -> bool:
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            texts = (decoder.decode(d, final=not d) for d in chain(self._chunks(), [b""]))
            return not any("\0" in text for text in texts)
        except UnicodeDecodeError:
            return False

    def _read(self, start: int, size: int) -> bytes:
        self._file.seek(start)
        return self._file.read(size)

    def _chunks(self) -> Iterator[bytes]:
        self._file.seek(0)
        while data := self._file.read(_CHUNK):
            yield data


def is_piped() -> bool:
    """Return whether stdin is open and no terminal."""
    try:
        return not os.isatty(0)
    except OSError:
        return False


def read_task() -> Piped:
    """Read all of stdin as the task. Raises UsageError when it is empty, not text, or too long."""
    piped = Piped()
    while chunk := _read():
        piped.add(chunk)
        if piped.size > _MOST_BYTES:
            raise UsageError(
                f"stdin is longer than {_MOST_BYTES:,} bytes, so it can't be the task",
                hint='name a file instead: agent run "find the cause in big.log"',
            )
    if piped.encoding() is None:
        raise UsageError(
            "stdin is not text, so it can't be the task",
            hint='give the task as an argument: … | agent run "what is this?"',
        )
    if piped.is_blank():
        raise UsageError("the task is empty", hint='e.g. agent run "fix the failing test"')
    return piped


def read_beside_task(notice_s: float, limit_s: float, tell: Callable[[str], None]) -> Piped:
    """Read what a pipe sends besides a task given as an argument. After `notice_s` of silence the
    pipe is mentioned; after `limit_s` the run continues with what there is."""
    piped = Piped()
    heard = time.monotonic()
    told = False
    while piped.size < _MOST_BYTES:
        silent = time.monotonic() - heard
        if silent >= limit_s:
            tell(f"stdin sent nothing for {limit_s:.0f} s; going on without it (see --no-stdin)")
            piped.whole = False
            return piped
        if silent >= notice_s and not told:
            told = True
            tell("waiting for stdin, which is a pipe; --no-stdin skips it")
        ready, _, _ = select.select([0], [], [], (limit_s if told else notice_s) - silent)
        if ready:
            chunk = _read()
            if not chunk:
                return piped
            piped.add(chunk)
            heard = time.monotonic()
    tell(f"stdin is longer than {_MOST_BYTES:,} bytes; the rest is left out")
    piped.whole = False
    return piped


def with_piped(task: str | None, piped: Piped, outputs: Path, max_bytes: int) -> str:
    """Return the task with the piped text as a marked block; without a task, that text is the task.
    If it is long or not text, it is stored in `outputs` and the file is named instead."""
    encoding = piped.encoding()
    if task is None:
        if piped.size <= max_bytes and encoding is not None:
            return piped.text(encoding)
        task = "The task was piped in:"
    if not piped.size:
        return task
    size = f"{piped.size:,} bytes" + ("" if piped.whole else ", not to its end")
    if encoding is None:
        path = piped.keep(outputs / "stdin.bin")
        return f"{task}\n\n[stdin was piped in: {size} of binary data, kept in {path}]"
    if piped.size <= max_bytes:
        return f"{task}\n\n<stdin>\n{piped.text(encoding).rstrip()}\n</stdin>"
    path = piped.keep(outputs / "stdin.txt")
    share = max_bytes // _EXCERPT_SHARE
    head = piped.text(encoding, 0, share)
    tail = piped.text(encoding, piped.size - share // 2)
    return (
        f"{task}\n\n[stdin was piped in: {size}, all of it in {path}; its head and tail follow]\n"
        f"<stdin>\n{head[: head.rfind(chr(10)) + 1] or head}\n[… left out …]\n"
        f"{tail[tail.find(chr(10)) + 1 :].rstrip()}\n</stdin>"
    )


@contextmanager
def kept_on_failure(piped: Piped | None) -> Iterator[None]:
    """Store the piped text in a temporary file if the block fails, and tell the user where: a
    pipe can't be read again."""
    try:
        yield
    except BaseException:
        if piped is not None and piped.size:
            try:
                fd, path = tempfile.mkstemp(prefix="agent-stdin-", suffix=".txt")
                os.close(fd)
                say_note(f"what came through stdin is kept in {piped.keep(Path(path))}")
            except OSError as error:
                say_note(f"what came through stdin could not be kept: {error.strerror}")
        raise


def _read() -> bytes:
    try:
        return os.read(0, _CHUNK)
    except OSError as error:
        raise UsageError(f"stdin can't be read: {error.strerror}", hint="see --no-stdin") from error


@dataclass(frozen=True)
class UserInput:
    """What a user says to a session. `message` is what the command line says; if it is None,
    stdin is the whole message. `piped` is what came through stdin; if it is None, nothing is said
    and the session just continues. Images are data URLs."""

    message: str | None = None
    piped: Piped | None = None
    image_urls: tuple[str, ...] = ()

    def record(
        self, builder: AgentBuilder, opened: OpenSession, required: RequirementSpec | None
    ) -> None:
        """Record this in the session, which is closed if that fails. `required` is what the work
        must come to."""
        with opened.closed_on_failure():
            if self.piped is None:
                opened.require(required)
                return
            outputs, limit = opened.session.outputs, builder.settings.input.stdin_max_bytes
            text = with_piped(self.message, self.piped, outputs, limit)
            opened.say(text, self.image_urls, self.message or "", required)

    def copied(self) -> UserInput:
        """Copy this for another process; sharing a file would mean sharing its read position."""
        return replace(self, piped=self.piped and self.piped.copied())


def piped_beside(builder: AgentBuilder, no_stdin: bool) -> Piped:
    if no_stdin or not is_piped():
        return Piped()
    waits = builder.settings.input
    return read_beside_task(waits.stdin_notice_s, waits.stdin_limit_s, say_note)
