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
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Collection, Container, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from threading import Timer
from typing import BinaryIO, Literal
from unicodedata import normalize

from agentcli.errors import ToolError
from agentcli.system.programs import find_program
from agentcli.workspace.encodings import read_bytes_as_text, start_as_text
from agentcli.workspace.ripgrep import Line, PatternError, Ripgrep, window
from agentcli.workspace.text import MAX_FILE_BYTES, split_lines
from agentcli.workspace.tracking import FileTracker
from agentcli.workspace.walk import Folder, folders, walk
from agentcli.workspace.wildcards import Glob

MAX_COLLECTED = 10_000

_FOLDERS_TOGETHER = 100_000
"""Most characters of folder paths passed to one call of a program."""
_FILES_TOGETHER = 256
_UNLIKE = re.compile(
    r"\\[<>]|(?<!\\)\[\^?\]?(?:\\[^n]|[^\]\\\n])*(?:&&|~~|--|\[(?!:)|\\n|\n)", re.S
)
"""Syntax that Python's and ripgrep's regular expressions interpret differently: operators within
brackets, and line ends there, which are two characters in some files."""
_LINE_END = re.compile(r"(?<!\\)((?:\\\\)*)(?:\\n|\n)")
_WORDS = re.compile(r"\w+(?:\|\w+)*")
_FORMS: tuple[Literal["NFC", "NFD"], ...] = ("NFC", "NFD")
_SAME_IN_ANY_ENCODING = re.compile(r"(?:[\w\s/@#%&=:;,<>'\"!~`|()^$-]|\\[^\w\s]|\\b)*", re.ASCII)
"""Patterns for which ripgrep finds the files that match, whatever superset of ASCII they are in."""
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
    word: bool = False
    """Matches must not begin or end within a word."""

    @property
    def spans_lines(self) -> bool:
        return bool(_LINE_END.search(self.pattern))

    @property
    def expression(self) -> str:
        """The pattern for both composed and decomposed letters, with `word` applied."""
        pattern = self.pattern
        if not pattern.isascii() and not re.search(r"[\[(]", pattern):
            pattern = "|".join(dict.fromkeys((pattern, *(normalize(f, pattern) for f in _FORMS))))
        if not self.word:
            return pattern
        edge = r"\b" if _WORDS.fullmatch(self.pattern) else r"(?:(?<!\w)|(?!\w))"
        return f"{edge}(?:{pattern}){edge}"

    @property
    def for_ripgrep(self) -> str:
        """`expression`, or where ripgrep has no words for it, an expression that matches more."""
        known = self.judged_by_python
        pattern = replace(self, word=False).expression if known else self.expression
        return _LINE_END.sub(r"\1\\r?\\n", pattern)

    @property
    def judged_by_python(self) -> bool:
        return self.word and not _WORDS.fullmatch(self.pattern)


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
            query.for_ripgrep,
            self._deadline,
            ignore_case=query.ignore_case,
            across=query.spans_lines,
        )
        names = self._matching(ripgrep) if self._place.is_dir() else self._candidates()
        with self._matcher() as matcher:
            while not self._hits.cut and (batch := list(islice(names, _FILES_TOGETHER))):
                with ExitStack() as stack:
                    opened = ((name, self._opened(name, stack)) for name in batch)
                    files = {
                        file.fileno(): name
                        for name, file in opened
                        if file and self._is_left_to_ripgrep(name, file, matcher)
                    }
                    for handle, line in self._lines(ripgrep, files):
                        self._add(files[handle], line)

    def _is_left_to_ripgrep(self, name: str, file: BinaryIO, matcher: Matcher) -> bool:
        """Return whether ripgrep reads a text as we do; add the matches of others."""
        data = file.read(MAX_FILE_BYTES + 1)
        is_large = len(data) > MAX_FILE_BYTES
        reading = (start_as_text if is_large else read_bytes_as_text)(data, self._name(name))
        if reading is None:
            return False
        is_plain = is_large or (reading.encoding == "utf-8" and not reading.bom)
        if is_plain and not self._query.judged_by_python:
            return True
        if is_large:
            self._hits.skipped += 1
        else:
            self._add_matches(matcher, name, reading.text)
        return False

    def _lines(self, ripgrep: Ripgrep, files: Collection[int]) -> Iterator[tuple[int, Line]]:
        query = self._query
        if files:
            lines = ripgrep.lines(files, query.context, only_first=query.files_only)
            with closing(lines):
                for found in lines:
                    yield found
                    if self._hits.cut:
                        break

    def _matching(self, ripgrep: Ripgrep) -> Iterator[str]:
        """Yield the files that match according to ripgrep, by their paths in `place`, and where it
        can't tell those in other encodings than UTF-8."""
        glob = self._query.glob
        others = not _SAME_IN_ANY_ENCODING.fullmatch(self._query.pattern)
        for batch in self._folders():
            for found in sorted(ripgrep.matching_files(list(batch), glob, others=others)):
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

    def _by_python(self) -> None:
        with self._matcher() as matcher:
            for name in self._candidates():
                if text := self._text(name):
                    self._add_matches(matcher, name, text)
                if self._hits.cut:
                    break

    def _matcher(self) -> Matcher:
        left = max(self._deadline - time.monotonic(), 0)
        return Matcher(*_compile(self._query), left, across=self._query.spans_lines)

    def _add_matches(self, matcher: Matcher, name: str, text: str) -> None:
        """Add the lines of a file that match. Raises TimeoutError."""
        text = text.replace("\r\n", "\n")
        matching = matcher.lines(text)
        if matching is None:
            raise TimeoutError
        if self._query.files_only:
            matching = dict(list(matching.items())[:1])
        lines = split_lines(text) if matching else []
        for number in _around(matching, self._query.context, len(lines)):
            line = window(lines[number], matching.get(number, 0))
            self._add(name, Line(number + 1, number in matching, line))

    def _text(self, name: str) -> str | None:
        with ExitStack() as stack:
            file = self._opened(name, stack)
            data = file.read(MAX_FILE_BYTES + 1) if file is not None else b""
        if len(data) > MAX_FILE_BYTES:
            self._hits.skipped += 1
            return None
        found = read_bytes_as_text(data, self._name(name))
        return found.text if found else None

    def _name(self, name: str) -> str:
        return (self._place / name).name

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


def _compile(query: Query) -> tuple[str, int]:
    """Return the pattern and flags for `re`. Raises ToolError if it is not valid."""
    pattern = query.expression
    for name, characters in _POSIX_CLASSES.items():
        pattern = pattern.replace(name, characters)
    flags = re.MULTILINE | (re.IGNORECASE if query.ignore_case else 0)
    try:
        with warnings.catch_warnings(action="ignore"):
            re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        literal = re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", query.pattern)
        raise ToolError(
            f"pattern is not a regular expression: {error}. To find the text itself: {literal}",
            error_id="bad_pattern",
        ) from error
    return pattern, int(flags)


_BRACKET = re.compile(r"(?<!\\)\[\^?\]?(?:\\.|[^\]\\])*\]", re.S)
_MISREAD = (
    (re.compile(r"(?<!\\)(?:\\\\)*\\\|"), "\\| is a literal |; alternatives are written a|b"),
    (
        re.compile(r"(?<!\\)(?:\\\\)*\$(?!$|[|)*+?{]|\\n|\n)"),
        "$ is the end of a line; \\$ is the character",
    ),
    (
        re.compile(r"[^\\(|:)]\^"),
        "^ is the start of a line; \\^ is the character",
    ),
)
"""Syntax of other programs, and what it means here."""


def why_no_match(pattern: str) -> list[str]:
    """Return what may be meant otherwise in a pattern that matches nothing."""
    outside = _BRACKET.sub("x", pattern)
    return [told for misread, told in _MISREAD if misread.search(outside)]


def _around(matching: Collection[int], context: int, total: int) -> list[int]:
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
        found = ((number, regex.search(line)) for number, line in enumerate(lines))
        return [(number, match.start()) for number, match in found if match]
    text = "\n".join(lines)
    numbers = {}
    line = counted = 0
    for match in regex.finditer(text):
        line, counted = line + text.count("\n", counted, match.start()), match.start()
        last = line + match[0].removesuffix("\n").count("\n")
        numbers.setdefault(line, match.start() - text.rfind("\n", 0, match.start()) - 1)
        for number in range(line + 1, last + 1):
            numbers.setdefault(number, 0)
    return sorted(numbers.items())

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

    def lines(self, text: str) -> dict[int, int] | None:
        """Return the numbers, from 0, of the matching lines in order, and where in each its first
        match begins; None if the time is up."""
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
        return dict(json.loads(answer)) if answer else None

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
