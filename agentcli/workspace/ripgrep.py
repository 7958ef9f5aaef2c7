"""ripgrep, run on folders to list files and on open files to find lines."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Generator, Sequence
from subprocess import CompletedProcess
from threading import Event, Timer
from typing import NamedTuple

MAX_LINE_CHARACTERS = 300
_LONGEST = 4 * MAX_LINE_CHARACTERS
"""Bytes or characters of a line that are kept; a character has at most 4 bytes."""
_LATE = 200
_BEFORE_MATCH = 100
_NOT_UTF8 = (
    r"(?-u:[\xC0\xC1\xF5-\xFF]|(?:^|[\x00-\x7F])[\x80-\xBF]"
    r"|[\xC2-\xF4](?:[\x00-\x7F\xC0-\xFF]|$)|[\xE0-\xF4][\x80-\xBF](?:[\x00-\x7F\xC0-\xFF]|$)"
    r"|[\xF0-\xF4][\x80-\xBF]{2}(?:[\x00-\x7F\xC0-\xFF]|$)|[\xC2-\xDF][\x80-\xBF]{2}"
    r"|[\xE0-\xEF][\x80-\xBF]{3}|[\xF0-\xF4][\x80-\xBF]{4}"
    r"|\xE0[\x80-\x9F]|\xED[\xA0-\xBF]|\xF0[\x80-\x8F]|\xF4[\x90-\xBF])"
)
"""A byte that UTF-8 can't have at its place: https://www.unicode.org/versions/latest/ table 3-7."""


class Line(NamedTuple):
    """A line that was found. `number` counts from 1; a line that is no match is context."""

    number: int
    is_match: bool
    text: str


# The caller knows what is ignored; ripgrep would wait for an ignore file that is a FIFO or device.
_OPTIONS = (
    *("--no-config", "--no-ignore", "--hidden", "--color=never", "--no-messages", "--null"),
    *("--crlf", "--max-filesize=1G"),
)
_SHOWING = (
    *("--text", "--no-heading", "--with-filename", "--line-number", "--no-context-separator"),
    *("--column", "--byte-offset"),
)
_LINE = re.compile(rb"/dev/fd/(\d+)\0(\d+)(?::(\d+):(\d+):|-\d+-)(.*)", re.S)
_TYPE_GLOB = re.compile(r"[\w.*?{},-]+", re.ASCII)
_MISUNDERSTOOD = 2
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


class PatternError(ValueError):
    """ripgrep does not support the pattern, for example one with look-around."""


class Ripgrep:
    """Searches for one pattern until `deadline`, a time of the monotonic clock. All methods raise
    PatternError, TimeoutError."""

    def __init__(
        self, program: str, pattern: str, deadline: float, *, ignore_case: bool, across: bool
    ) -> None:
        options = ["--ignore-case"] * ignore_case + ["--multiline"] * across
        self._command = [program, *_OPTIONS, *options]
        self._pattern = pattern
        self._deadline = deadline

    def matching_files(
        self, folders: Sequence[str], glob: str | None, *, others: bool
    ) -> list[str]:
        """Return the matching files directly in `folders`, and with `others` also those that are
        not UTF-8; some may not match `glob`."""
        options = ["--files-with-matches", "--max-depth=1"]
        if glob and _TYPE_GLOB.fullmatch(glob):
            options += [f"--type-add=wanted:{glob}", "--type=wanted"]
        pattern = f"(?:{self._pattern})|{_NOT_UTF8}" if others else self._pattern
        done = self._run(options, folders, pattern)
        if not done.stdout:
            self._require_understood(done.returncode)
        return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]

    def lines(
        self, handles: Collection[int], context: int, *, only_first: bool
    ) -> Generator[tuple[int, Line], None, None]:
        """Yield each match in the files behind `handles`, with that handle, and `context` lines
        around it. Lines much longer than MAX_LINE_CHARACTERS are cut around the match."""
        options = [*_SHOWING, f"--max-columns={_LONGEST}", "--max-columns-preview"]
        options += ["--max-count=1"] if only_first else [f"--context={context}"]
        expired = Event()
        some = False
        with subprocess.Popen(
            self._with(options, [f"/dev/fd/{handle}" for handle in handles], self._pattern),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_ENVIRONMENT,
            pass_fds=tuple(handles),
        ) as process:

            def expire() -> None:
                expired.set()
                process.kill()

            timer = Timer(self._seconds_left(), expire)
            timer.start()
            try:
                assert process.stdout is not None, "it was asked for"
                for raw in process.stdout:
                    if found := _LINE.fullmatch(raw):
                        some = True
                        handle, number, column, offset, raw = found.groups()
                        text = _to_text(raw.rstrip(b"\r\n"))
                        if column and len(raw) > _LONGEST and int(column) > _LATE:
                            text = _around(int(handle), int(offset) + int(column) - 1)
                        elif column:
                            text = window(text, len(_to_text(raw[: int(column) - 1])))
                        yield int(handle), Line(int(number), column is not None, text)
                process.wait()
            finally:
                timer.cancel()
                process.kill()
        if expired.is_set():
            raise TimeoutError
        if not some:
            self._require_understood(process.returncode)

    def _with(self, options: Sequence[str], paths: Sequence[str], pattern: str) -> list[str]:
        return [*self._command, *options, "--", pattern, *paths]

    def _require_understood(self, code: int) -> None:
        """ripgrep exits with the same code for an unreadable file and an unsupported pattern; raise
        PatternError only for the pattern."""
        if code == _MISUNDERSTOOD:
            again = self._run(["--quiet"], [os.devnull], self._pattern)
            if again.returncode == _MISUNDERSTOOD:
                raise PatternError

    def _run(
        self, options: Sequence[str], paths: Sequence[str], pattern: str
    ) -> CompletedProcess[bytes]:
        try:
            return subprocess.run(
                self._with(options, paths, pattern),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_ENVIRONMENT,
                timeout=self._seconds_left(),
            )
        except subprocess.TimeoutExpired as expired:
            raise TimeoutError from expired

    def _seconds_left(self) -> float:
        return max(self._deadline - time.monotonic(), 0)


def window(line: str, match: int) -> str:
    """Return a long line from shortly before the match that begins at `match`."""
    if match <= _LATE:
        return line[:_LONGEST]
    return f"[…] {line[match - _BEFORE_MATCH : match + _LONGEST]}"


def _around(handle: int, place: int) -> str:
    """Return the line of a file from shortly before `place`, which is late in it."""
    data = os.pread(handle, _LONGEST, place - _BEFORE_MATCH).partition(b"\n")[0]
    text = data.rstrip(b"\r").decode(errors="ignore")
    return f"[…] {text}"


def _to_text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")
