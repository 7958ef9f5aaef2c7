"""Standard input as a task or as material for one."""

from __future__ import annotations

import codecs
import os
import select
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentcli.errors import UsageError
from agentcli.ui.sanitize import say

_CHUNK = 1 << 16
_MAX_BYTES = 50_000_000
_EXCERPT_SHARE = 4


@dataclass(frozen=True)
class Piped:
    """What came through the pipe; `whole` is False when it was not waited for to its end."""

    data: bytes
    whole: bool

    @property
    def text(self) -> str | None:
        """As text, or None when it is none."""
        for encoding in ("utf-8-sig", "utf-16"):
            if encoding == "utf-16" and not self.data.startswith(
                (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            ):
                continue
            try:
                text = self.data.decode(encoding)
            except UnicodeDecodeError:
                continue
            return None if "\0" in text else text
        if b"\0" in self.data:
            return None
        return self.data.decode("latin-1") if _mostly_text(self.data) else None


def _mostly_text(data: bytes) -> bool:
    odd = sum(byte < 32 and byte not in (9, 10, 12, 13, 27) for byte in data[:8192])
    return odd * 50 < len(data[:8192])


def is_piped() -> bool:
    """Whether stdin is there and no terminal."""
    try:
        return not os.isatty(0)
    except OSError:
        return False


def read_task() -> str:
    """All of stdin as the task. Raises UsageError when it is empty or no text."""
    data = bytearray()
    while chunk := _read():
        data += chunk
    text = Piped(bytes(data), whole=True).text
    if text is None:
        raise UsageError(
            "stdin is not text, so it can't be the task",
            hint='give the task as an argument: … | agent run "what is this?"',
        )
    if not text.strip():
        raise UsageError("the task is empty", hint='e.g. agent run "fix the failing test"')
    return text


def read_beside_task(notice_s: float, limit_s: float, tell: Callable[[str], None]) -> Piped:
    """What a pipe sends beside a task given as an argument. One that is silent for `notice_s` is
    mentioned, after `limit_s` the run goes on with what there is."""
    data = bytearray()
    heard = time.monotonic()
    told = False
    while len(data) < _MAX_BYTES:
        silent = time.monotonic() - heard
        if silent >= limit_s:
            tell(f"stdin sent nothing for {limit_s:.0f} s; going on without it (see --no-stdin)")
            return Piped(bytes(data), whole=False)
        if silent >= notice_s and not told:
            told = True
            tell("waiting for stdin, which is a pipe; --no-stdin does without it")
        ready, _, _ = select.select([0], [], [], (limit_s if told else notice_s) - silent)
        if ready:
            chunk = _read()
            if not chunk:
                return Piped(bytes(data), whole=True)
            data += chunk
            heard = time.monotonic()
    tell(f"stdin is longer than {_MAX_BYTES:,} bytes; the rest is left out")
    return Piped(bytes(data), whole=False)


def with_piped(task: str, piped: Piped, outputs: Path, max_bytes: int) -> str:
    """The task with what was piped as a marked block; what is long or no text is kept in
    `outputs` and named."""
    if not piped.data:
        return task
    text = piped.text
    size = f"{len(piped.data):,} bytes" + ("" if piped.whole else ", not to its end")
    if text is None:
        path = _keep(piped, outputs, "stdin.bin")
        return f"{task}\n\n[stdin was piped in: {size} of binary data, kept in {path}]"
    if len(piped.data) <= max_bytes:
        return f"{task}\n\n<stdin>\n{text.rstrip()}\n</stdin>"
    path = _keep(piped, outputs, "stdin.txt")
    share = max_bytes // _EXCERPT_SHARE
    head, tail = text[:share], text[-share // 2 :]
    return (
        f"{task}\n\n[stdin was piped in: {size}, all of it in {path}; its head and tail follow]\n"
        f"<stdin>\n{head[: head.rfind(chr(10)) + 1] or head}\n[… left out …]\n"
        f"{tail[tail.find(chr(10)) + 1 :].rstrip()}\n</stdin>"
    )


@contextmanager
def kept_on_failure(heard: bytes) -> Iterator[None]:
    """What came through a pipe can't be read again: when the block fails, it is kept in a file of
    the system's folder for temporary ones, and the person is told where."""
    try:
        yield
    except BaseException:
        if heard:
            try:
                fd, path = tempfile.mkstemp(prefix="agent-stdin-", suffix=".txt")
                with open(fd, "wb") as file:
                    file.write(heard)
                tell_on_stderr(f"what came through stdin is kept in {path}")
            except OSError as error:
                tell_on_stderr(f"what came through stdin could not be kept: {error.strerror}")
        raise


def _keep(piped: Piped, outputs: Path, name: str) -> Path:
    path = outputs / name
    with open(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(piped.data)
    return path


def _read() -> bytes:
    try:
        return os.read(0, _CHUNK)
    except OSError as error:
        raise UsageError(f"stdin can't be read: {error.strerror}", hint="see --no-stdin") from error


def tell_on_stderr(text: str) -> None:
    say(f"agent: {text}", sys.stderr)
