"""Searches with ripgrep, a fast search program, if it is installed.

ripgrep walks folders by path, so swapping a folder for a symlink meanwhile can lead it astray, and
it does not know what is hidden. So it reports only the names of the files it finds by itself; lines
are taken only from files that we have judged and opened.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Collection, Generator, Sequence
from subprocess import CompletedProcess
from threading import Event, Timer
from typing import NamedTuple

# The caller knows what is ignored; ripgrep would wait for an ignore file that is a FIFO or device.
_OPTIONS = (
    *("--no-config", "--no-ignore", "--hidden", "--color=never", "--no-messages", "--null"),
    *("--crlf", "--max-filesize=1G"),
)
_SHOWING = (
    *("--text", "--no-heading", "--with-filename", "--line-number", "--no-context-separator"),
)
_LINE = re.compile(rb"/dev/fd/(\d+)\0(\d+)([:-])(.*)", re.S)
_TYPE_GLOB = re.compile(r"[\w.*?{},-]+")
_MISUNDERSTOOD = 2


class PatternError(ValueError):
    """ripgrep does not support the pattern, for example one with look-around."""


class Line(NamedTuple):
    """A line of the file behind `handle`. `number` counts from 1; a line that is no match is
    context."""

    handle: int
    number: int
    is_match: bool
    text: str


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

    def matching_files(self, folders: Sequence[str], glob: str | None) -> list[str]:
        """Return the matching files directly in `folders`; some may not match `glob`."""
        options = ["--files-with-matches", "--max-depth=1"]
        if glob and _TYPE_GLOB.fullmatch(glob):
            options += [f"--type-add=wanted:{glob}", "--type=wanted"]
        done = self._run(options, folders)
        if not done.stdout:
            self._require_understood(done.returncode)
        return [os.fsdecode(name) for name in done.stdout.split(b"\0") if name]

    def lines(
        self, handles: Collection[int], context: int, width: int, *, only_first: bool
    ) -> Generator[Line, None, None]:
        """Yield the matches in the files behind `handles`, with `context` lines around each. Lines
        much longer than `width` characters are cut."""
        # ripgrep cuts lines by bytes, and a character has at most 4.
        options = [*_SHOWING, f"--max-columns={4 * width}", "--max-columns-preview"]
        options += ["--max-count=1"] if only_first else [f"--context={context}"]
        expired = Event()
        some = False
        with subprocess.Popen(
            self._with(options, [f"/dev/fd/{handle}" for handle in handles]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
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
                        handle, number, mark, text = found.groups()
                        yield Line(int(handle), int(number), mark == b":", _to_text(text))
                process.wait()
            finally:
                timer.cancel()
                process.kill()
        if expired.is_set():
            raise TimeoutError
        if not some:
            self._require_understood(process.returncode)

    def _with(self, options: Sequence[str], paths: Sequence[str]) -> list[str]:
        return [*self._command, *options, "--", self._pattern, *paths]

    def _require_understood(self, code: int) -> None:
        """ripgrep exits with the same code for an unreadable file and an unsupported pattern; raise
        PatternError only for the pattern."""
        if code == _MISUNDERSTOOD:
            again = self._run(["--quiet"], [os.devnull])
            if again.returncode == _MISUNDERSTOOD:
                raise PatternError

    def _run(self, options: Sequence[str], paths: Sequence[str]) -> CompletedProcess[bytes]:
        try:
            return subprocess.run(
                self._with(options, paths),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=_environment(),
                timeout=self._seconds_left(),
            )
        except subprocess.TimeoutExpired as expired:
            raise TimeoutError from expired

    def _seconds_left(self) -> float:
        return max(self._deadline - time.monotonic(), 0)


def _environment() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}


def _to_text(line: bytes) -> str:
    line = line.rstrip(b"\r\n")
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")
