"""Finds lines that match a regular expression, in a process that can be killed.

A pattern such as `(a+)+$` may take practically forever, and Python's `re` can neither be
interrupted in a thread nor given a time limit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Generator, Sequence
from subprocess import CompletedProcess
from threading import Event, Timer
from typing import NamedTuple

_PROGRAM = r"""
import json, re, sys

pattern, flags, across = json.loads(sys.stdin.buffer.readline())
regex = re.compile(pattern, flags)
# Text without a match has no line with one either, but for patterns that look around.
quick = None if re.search(r"\(\?|\\[AZBz]", pattern) else regex

def matching(text):
    if quick and not quick.search(text):
        return []
    lines = text.split("\n")
    lines = lines if lines[-1] else lines[:-1]
    if not across:
        return [number for number, line in enumerate(lines) if regex.search(line)]
    text = "\n".join(lines)
    numbers = set()
    line = counted = 0
    for match in regex.finditer(text):
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        last = line + match[0].removesuffix("\n").count("\n")
        numbers.update(range(line, last + 1))
    return sorted(numbers)

while size := sys.stdin.buffer.readline():
    found = matching(sys.stdin.buffer.read(int(size)).decode("utf-8", "surrogatepass"))
    sys.stdout.buffer.write(json.dumps(found).encode() + b"\n")
    sys.stdout.buffer.flush()
"""


class Matcher:
    """Searches texts one by one for a valid `pattern`, for `limit_s` seconds in total. `across`
    lets a match span lines. The process starts with the first text."""

    def __init__(self, pattern: str, flags: int, limit_s: float, *, across: bool) -> None:
        self._setup = json.dumps([pattern, flags, across]).encode() + b"\n"
        self._limit_s = limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: Timer | None = None

    def __enter__(self) -> Matcher:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def lines(self, text: str) -> set[int] | None:
        """Return the numbers, from 0, of the matching lines; None if the time is up."""
        process = self._process or self._start()
        asked, answers = process.stdin, process.stdout
        assert asked is not None
        assert answers is not None
        data = text.encode("utf-8", "surrogatepass")
        try:
            asked.write(b"%d\n" % len(data) + data)
            asked.flush()
        except BrokenPipeError:
            return None
        answer = answers.readline()
        return set(json.loads(answer)) if answer else None

    def _start(self) -> subprocess.Popen[bytes]:
        # Isolated, so that neither the workspace nor the environment can inject a module.
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env={},
        )
        self._process = process
        self._timer = Timer(self._limit_s, process.kill)
        self._timer.daemon = True
        self._timer.start()
        assert process.stdin is not None
        process.stdin.write(self._setup)
        return process


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
