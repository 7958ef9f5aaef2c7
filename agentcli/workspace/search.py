"""Search the files of a workspace for a regular expression, with ripgrep where it is installed.

ripgrep walks folders by path, so swapping a folder for a symlink meanwhile can lead it astray, and
it does not know what is hidden. So it reports only the names of the files it finds by itself; lines
are taken only from files that we have judged and opened.

Without ripgrep, or for a pattern that only Python understands, Python's `re` searches in a process
of its own: a pattern such as `(a+)+$` may take practically forever, and `re` can neither be
interrupted in a thread nor given a time limit.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Collection, Container, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from subprocess import CompletedProcess
from threading import Event, Timer
from typing import BinaryIO, NamedTuple

from agentcli.errors import ToolError
from agentcli.system.programs import find_program
from agentcli.workspace.encodings import read_bytes_as_text, start_as_text
from agentcli.workspace.text import MAX_FILE_BYTES, split_lines
from agentcli.workspace.tracking import FileTracker
from agentcli.workspace.walk import Folder, folders, walk
from agentcli.workspace.wildcards import Glob

MAX_LINE_CHARACTERS = 300
MAX_COLLECTED = 10_000

_FOLDERS_TOGETHER = 100_000
"""Most characters of folder paths passed to one call of a program."""
_FILES_TOGETHER = 256
_UNLIKE = re.compile(r"\\[<>]|&&|~~|--")
"""Syntax that Python's and ripgrep's regular expressions interpret differently."""
_POSIX_CLASSES = {
    "[:space:]": r"\s",
    "[:digit:]": r"\d",
    "[:alpha:]": "a-zA-Z",
    "[:alnum:]": "a-zA-Z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
}


@dataclass(frozen=True, slots=True)
class Query:
    """What to search for. `glob` limits the files by name, `context` is the number of lines around
    a match; with `files_only`, the first match of each file suffices."""

    pattern: str
    glob: str | None = None
    ignore_case: bool = False
    context: int = 0
    files_only: bool = False

    @property
    def spans_lines(self) -> bool:
        return "\n" in self.pattern or bool(re.search(r"(?<!\\)(?:\\\\)*\\n", self.pattern))


class Line(NamedTuple):
    """A line that was found. `number` counts from 1; a line that is no match is context."""

    number: int
    is_match: bool
    text: str


@dataclass(slots=True)
class Hits:
    """Lines found, by path. `cut` says why there may be more, `skipped` counts unread files."""

    files: dict[str, list[Line]] = field(default_factory=dict)
    matches: int = 0
    cut: str = ""
    skipped: int = 0


class Search:
    """A search of `path`, which leads to the readable `place`, for at most `seconds`."""

    def __init__(self, query: Query, path: Path, files: FileTracker, seconds: int) -> None:
        self._query = query
        self._path = path
        self._place = files.require_readable(path)
        self._files = files
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds
        self._wanted = Glob(query.glob) if query.glob else None
        self._hits = Hits()

    def run(self) -> Hits:
        """Return what was found. Raises ToolError for a pattern that is not valid, or if the only
        file can't be read."""
        program = find_program("rg")
        try:
            if program and not _UNLIKE.search(self._query.pattern):
                with suppress(PatternError):
                    self._by_ripgrep(program)
                    return self._hits
            self._by_python()
        except TimeoutError:
            self._hits.cut = f"stopped after {self._seconds} s"
        return self._hits

    def _by_ripgrep(self, program: str) -> None:
        query = self._query
        ripgrep = Ripgrep(
            program,
            query.pattern,
            self._deadline,
            ignore_case=query.ignore_case,
            across=query.spans_lines,
        )
        names = self._matching(ripgrep) if self._place.is_dir() else self._candidates()
        while not self._hits.cut and (batch := list(islice(names, _FILES_TOGETHER))):
            with ExitStack() as stack:
                opened = ((name, self._opened(name, stack)) for name in batch)
                self._collect(ripgrep, {f.fileno(): (name, f) for name, f in opened if f})

    def _matching(self, ripgrep: Ripgrep) -> Iterator[str]:
        """Yield the files that match according to ripgrep, by their paths in `place`."""
        for batch in self._folders():
            for found in sorted(ripgrep.matching_files(list(batch), self._query.glob)):
                above, slash, name = found.rpartition("/")
                folder = batch.get(above + slash)
                if folder is None or folder.leaves_out(name, is_folder=False):
                    continue
                if self._wanted is None or self._wanted.matches(folder.path + name):
                    yield folder.path + name

    def _folders(self) -> Iterator[dict[str, Folder]]:
        """Yield batches of the folders to search, by their whole paths."""
        base = f"{self._place}/".replace("//", "/")
        batch: dict[str, Folder] = {}
        room = _FOLDERS_TOGETHER
        for folder in folders(self._place, self._unseen()):
            self._check_time()
            path = base + folder.path
            batch[path] = folder
            room -= len(path)
            if room < 0:
                yield batch
                batch, room = {}, _FOLDERS_TOGETHER
        if batch:
            yield batch

    def _collect(self, ripgrep: Ripgrep, files: dict[int, tuple[str, BinaryIO]]) -> None:
        is_text = cache(_is_text)
        query = self._query
        lines = ripgrep.lines(files.keys(), query.context, only_first=query.files_only)
        with closing(lines):
            for handle, line in lines if files else ():
                name, file = files[handle]
                if is_text(file):
                    self._add(name, line)
                if self._hits.cut:
                    return

    def _by_python(self) -> None:
        query = self._query
        pattern, flags = _compile(query)
        left = max(self._deadline - time.monotonic(), 0)
        with Matcher(pattern, flags, left, across=query.spans_lines) as matcher:
            for name in self._candidates():
                text = self._text(name)
                matching = matcher.lines(text) if text else set()
                if matching is None:
                    raise TimeoutError
                if matching and text:
                    lines = split_lines(text)
                    matching = {min(matching)} if query.files_only else matching
                    for number in _around(matching, query.context, len(lines)):
                        self._add(name, Line(number + 1, number in matching, lines[number]))
                if self._hits.cut:
                    break

    def _text(self, name: str) -> str | None:
        with ExitStack() as stack:
            file = self._opened(name, stack)
            data = file.read(MAX_FILE_BYTES + 1) if file is not None else b""
        if len(data) > MAX_FILE_BYTES:
            self._hits.skipped += 1
            return None
        found = read_bytes_as_text(data, (self._place / name).name)
        return found.text.replace("\r\n", "\n") if found else None

    def _candidates(self) -> Iterator[str]:
        """Yield the files to search, by their paths in `place`; "" is `place` itself."""
        if not self._place.is_dir():
            if self._wanted is None or self._wanted.matches(self._path.name):
                yield ""
            return
        for found in walk(self._place, self._unseen()):
            self._check_time()
            if found.is_file and (self._wanted is None or self._wanted.matches(found.path)):
                yield found.path

    def _unseen(self) -> Container[str]:
        return self._files.guard.unseen_below(self._place, "grep", unasked=True)

    def _opened(self, name: str, stack: ExitStack) -> BinaryIO | None:
        """Open a file; return None, and count it, if it can't or may not be read."""
        try:
            return stack.enter_context(self._files.opened(self._place / name))
        except ToolError:
            if not name:
                raise
            self._hits.skipped += 1
            return None

    def _add(self, name: str, line: Line) -> None:
        hits = self._hits
        hits.files.setdefault(str(self._path / name), []).append(line)
        hits.matches += line.is_match
        if hits.matches >= MAX_COLLECTED:
            hits.cut = f"stopped at {MAX_COLLECTED} matches"

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise TimeoutError


def _is_text(file: BinaryIO) -> bool:
    """Return whether the file is text, judged by its beginning if it is large."""
    file.seek(0)
    return start_as_text(file.read(MAX_FILE_BYTES)) is not None


def _compile(query: Query) -> tuple[str, int]:
    """Return the pattern and flags for `re`. Raises ToolError if it is not valid."""
    pattern = query.pattern
    for name, characters in _POSIX_CLASSES.items():
        pattern = pattern.replace(name, characters)
    flags = re.MULTILINE | (re.IGNORECASE if query.ignore_case else 0)
    try:
        re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        literal = re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", query.pattern)
        raise ToolError(
            f"pattern is not a regular expression: {error}. To find the text itself: {literal}",
            error_id="bad_pattern",
        ) from error
    return pattern, int(flags)


def _around(matching: set[int], context: int, total: int) -> list[int]:
    spans = (range(max(n - context, 0), min(n + context + 1, total)) for n in matching)
    return sorted({number for span in spans for number in span})


# --- Python's expressions -----------------------------------------------------------------------

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


# --- ripgrep --------------------------------------------------------------------------------------

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
        self, handles: Collection[int], context: int, *, only_first: bool
    ) -> Generator[tuple[int, Line], None, None]:
        """Yield each match in the files behind `handles`, with that handle, and `context` lines
        around it. Lines much longer than MAX_LINE_CHARACTERS are cut."""
        # ripgrep cuts lines by bytes, and a character has at most 4.
        options = [*_SHOWING, f"--max-columns={4 * MAX_LINE_CHARACTERS}", "--max-columns-preview"]
        options += ["--max-count=1"] if only_first else [f"--context={context}"]
        expired = Event()
        some = False
        with subprocess.Popen(
            self._with(options, [f"/dev/fd/{handle}" for handle in handles]),
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
                        handle, number, mark, text = found.groups()
                        yield (
                            int(handle),
                            Line(int(number), mark == b":", _to_text(text.rstrip(b"\r\n"))),
                        )
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
                env=_ENVIRONMENT,
                timeout=self._seconds_left(),
            )
        except subprocess.TimeoutExpired as expired:
            raise TimeoutError from expired

    def _seconds_left(self) -> float:
        return max(self._deadline - time.monotonic(), 0)


def _to_text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")
