"""grep: search file contents for a regular expression, with ripgrep where it is installed."""

from __future__ import annotations

import contextlib
import re
import stat
import time
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from agentcli.errors import ToolError
from agentcli.events.actions import SearchAction
from agentcli.events.observations import SearchObservation
from agentcli.system.programs import find_program
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult
from agentcli.tools.read import shortened, split_lines
from agentcli.workspace.search import Matcher, PatternError, Ripgrep
from agentcli.workspace.text import MAX_FILE_BYTES, decode
from agentcli.workspace.tracking import FileTracker
from agentcli.workspace.walk import Folder, Glob, existing, folders, walk

MAX_SECONDS = 30
MAX_PATTERN_CHARACTERS = 10_000
MAX_LINE_CHARACTERS = 300
MAX_CONTEXT = 100
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


class Arguments(ToolArguments):
    """Search files by regex, skipping ignored ones. glob: *.py, src/**"""

    pattern: str
    path: str = "."
    glob: str | None = None
    word: bool = False
    ignore_case: bool = False
    context: int = 0
    files_only: bool = False
    max_results: int = 100


@dataclass(frozen=True, slots=True)
class _Line:
    number: int
    is_match: bool
    text: str


@dataclass(slots=True)
class _Hits:
    """Lines found, by path. `cut` says why there may be more, `skipped` counts unread files."""

    files: dict[str, list[_Line]] = field(default_factory=dict)
    matches: int = 0
    cut: str = ""
    skipped: int = 0

    def add(self, path: str, line: _Line) -> None:
        self.files.setdefault(path, []).append(line)
        self.matches += line.is_match
        if self.matches >= MAX_COLLECTED:
            self.cut = f"stopped at {MAX_COLLECTED} matches"


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    if not args.pattern or re.search("[\0\ud800-\udfff]", args.pattern):
        raise ToolError(
            "pattern is empty or has characters that no text has.", error_id="bad_pattern"
        )
    if len(args.pattern) > MAX_PATTERN_CHARACTERS:
        raise ToolError(
            f"pattern is longer than {MAX_PATTERN_CHARACTERS:,} characters.", error_id="bad_pattern"
        )
    path, info = existing(ctx.files, args.path)
    if not stat.S_ISDIR(info.st_mode) and not stat.S_ISREG(info.st_mode):
        raise ToolError(f"{ctx.files.show(path)} is not a file or folder.", error_id="not_a_file")
    wanted = args
    if args.word:
        wanted = args.model_copy(update={"pattern": rf"\b(?:{args.pattern})\b"})
    return _report(args, ctx, path, _search(wanted, path, ctx.files))


def _search(args: Arguments, path: Path, files: FileTracker) -> _Hits:
    place = files.require_readable(path)
    search = _Search(args, path, place, files, time.monotonic() + MAX_SECONDS)
    program = find_program("rg")
    try:
        if program and not _UNLIKE.search(args.pattern):
            with contextlib.suppress(PatternError):
                return search.by_ripgrep(program)
        return search.by_python()
    except TimeoutError:
        search.hits.cut = f"stopped after {MAX_SECONDS} s"
        return search.hits


# --- the two ways to search ---------------------------------------------------------------------


@dataclass(slots=True)
class _Search:
    """`path` is what the model named, `place` is where that leads and may be read. Both methods
    raise TimeoutError after `deadline`; `hits` has what was found until then."""

    args: Arguments
    path: Path
    place: Path
    files: FileTracker
    deadline: float
    hits: _Hits = field(default_factory=_Hits)

    def by_ripgrep(self, program: str) -> _Hits:
        """Search with ripgrep. Raises PatternError for a pattern that only Python understands."""
        ripgrep = Ripgrep(
            program,
            self.args.pattern,
            self.deadline,
            ignore_case=self.args.ignore_case,
            across=_spans_lines(self.args.pattern),
        )
        names = self._matching(ripgrep) if self.place.is_dir() else self._candidates()
        while not self.hits.cut and (batch := list(islice(names, _FILES_TOGETHER))):
            with contextlib.ExitStack() as stack:
                files = {}
                for name in batch:
                    if (file := self._opened(name, stack)) is not None:
                        files[file.fileno()] = name, file
                self._collect(ripgrep, files)
        return self.hits

    def _matching(self, ripgrep: Ripgrep) -> Iterator[str]:
        """Yield the files that match according to ripgrep, by their paths in `place`."""
        wanted = self._name_pattern()
        for batch in self._folders():
            for found in sorted(ripgrep.matching_files(list(batch), self.args.glob)):
                above, slash, name = found.rpartition("/")
                folder = batch.get(above + slash)
                if folder is None or folder.leaves_out(name, is_folder=False):
                    continue
                if wanted is None or wanted.matches(folder.path + name):
                    yield folder.path + name

    def _folders(self) -> Iterator[dict[str, Folder]]:
        """Yield batches of the folders to search, by their whole paths."""
        base = f"{self.place}/".replace("//", "/")
        batch: dict[str, Folder] = {}
        room = _FOLDERS_TOGETHER
        for folder in folders(self.place, self._unseen()):
            self._check_time()
            path = base + folder.path
            batch[path] = folder
            room -= len(path)
            if room < 0:
                yield batch
                batch, room = {}, _FOLDERS_TOGETHER
        if batch:
            yield batch

    def _collect(self, ripgrep: Ripgrep, files: Mapping[int, tuple[str, BinaryIO]]) -> None:
        is_text = cache(_is_text)
        context, only_first = self._context(), self.args.files_only
        if not files:
            return
        lines = ripgrep.lines(files.keys(), context, MAX_LINE_CHARACTERS, only_first=only_first)
        with contextlib.closing(lines):
            for line in lines:
                name, file = files[line.handle]
                if is_text(file):
                    self._add(name, _Line(line.number, line.is_match, line.text))
                if self.hits.cut:
                    return

    def by_python(self) -> _Hits:
        args = self.args
        pattern, flags = _compile(args)
        left = max(self.deadline - time.monotonic(), 0)
        with Matcher(pattern, flags, left, across=_spans_lines(args.pattern)) as matcher:
            for name in self._candidates():
                text = self._text(name)
                matching = matcher.lines(text) if text else set()
                if matching is None:
                    raise TimeoutError
                if matching and text:
                    lines = split_lines(text)
                    matching = {min(matching)} if args.files_only else matching
                    for number in _around(matching, self._context(), len(lines)):
                        self._add(name, _Line(number + 1, number in matching, lines[number]))
                if self.hits.cut:
                    break
        return self.hits

    def _text(self, name: str) -> str | None:
        with contextlib.ExitStack() as stack:
            file = self._opened(name, stack)
            data = file.read(MAX_FILE_BYTES + 1) if file is not None else b""
        if len(data) > MAX_FILE_BYTES:
            self.hits.skipped += 1
            return None
        decoded = decode(data)
        return decoded[0].replace("\r\n", "\n") if decoded else None

    def _candidates(self) -> Iterator[str]:
        """Yield the files to search, by their paths in `place`; "" is `place` itself."""
        wanted = self._name_pattern()
        if not self.place.is_dir():
            if wanted is None or wanted.matches(self.path.name):
                yield ""
            return
        for found in walk(self.place, self._unseen()):
            self._check_time()
            if found.is_file and (wanted is None or wanted.matches(found.path)):
                yield found.path

    def _unseen(self) -> Container[str]:
        return self.files.unseen_below(self.place, "grep", unasked=True)

    def _opened(self, name: str, stack: contextlib.ExitStack) -> BinaryIO | None:
        """Open a file; return None, and count it, if it can't or may not be read."""
        try:
            return stack.enter_context(self.files.opened(self.place / name))
        except ToolError:
            if not name:
                raise
            self.hits.skipped += 1
            return None

    def _add(self, name: str, line: _Line) -> None:
        self.hits.add(str(self.path / name), line)

    def _name_pattern(self) -> Glob | None:
        return Glob(self.args.glob) if self.args.glob else None

    def _context(self) -> int:
        return 0 if self.args.files_only else min(max(self.args.context, 0), MAX_CONTEXT)

    def _check_time(self) -> None:
        if time.monotonic() > self.deadline:
            raise TimeoutError


def _is_text(file: BinaryIO) -> bool:
    """Whether the file is text, judged by its beginning if it is large."""
    file.seek(0)
    data = file.read(MAX_FILE_BYTES)
    if len(data) == MAX_FILE_BYTES:
        data = data[: data.rfind(b"\n") + 1] or data
    return decode(data) is not None


def _compile(args: Arguments) -> tuple[str, int]:
    pattern = args.pattern
    for name, characters in _POSIX_CLASSES.items():
        pattern = pattern.replace(name, characters)
    flags = re.MULTILINE | (re.IGNORECASE if args.ignore_case else 0)
    try:
        re.compile(pattern, flags)
    except (re.error, OverflowError, RecursionError) as error:
        literal = re.sub(r"([.^$*+?{}\[\]\\|()])", r"\\\1", args.pattern)
        raise ToolError(
            f"pattern is not a regular expression: {error}. To find the text itself: {literal}",
            error_id="bad_pattern",
        ) from error
    return pattern, int(flags)


def _spans_lines(pattern: str) -> bool:
    return "\n" in pattern or re.search(r"(?<!\\)(?:\\\\)*\\n", pattern) is not None


def _around(matching: set[int], context: int, total: int) -> list[int]:
    return sorted(
        {
            number
            for match in matching
            for number in range(max(match - context, 0), min(match + context + 1, total))
        }
    )


# --- the answer ---------------------------------------------------------------------------------


def _report(args: Arguments, ctx: ToolContext, path: Path, hits: _Hits) -> ToolResult:
    limit = max(args.max_results, 1)
    notes = [hits.cut] if hits.cut else []
    if hits.skipped:
        notes.append(f"{hits.skipped} files could not be read or are over 10 MB")
    names = sorted(hits.files)
    if args.files_only:
        lines = [ctx.files.show(Path(name)) for name in names[:limit]]
        shown, total, unit = len(lines), len(names), "files"
    else:
        lines, shown = _grouped(ctx, hits, limit, min(args.context, MAX_CONTEXT))
        total, unit = hits.matches, f"matches in {len(names)} files"
    if shown < total:
        notes.insert(0, f"{shown} of {total} {unit}; narrow by path or glob, or raise max_results")
    if not total:
        where = ctx.files.show(path) + (f", files {args.glob}" if args.glob else "")
        lines = [f"No matches in {where}"]
    if notes:
        lines.append(f"[{'; '.join(notes)}]")
    data = {"matches": total, "truncated": shown < total or bool(hits.cut)}
    return ToolResult("\n".join(lines), data=data)


def _grouped(ctx: ToolContext, hits: _Hits, limit: int, context: int) -> tuple[list[str], int]:
    """Return lines under their file's path, and how many matches they include. If not all fit, the
    longest lists are cut first, so that one file can't crowd out the others."""
    counts = [sum(line.is_match for line in lines) for lines in hits.files.values()]
    each = next((n for n in range(limit, 1, -1) if sum(min(n, c) for c in counts) <= limit), 1)
    out: list[str] = []
    shown = 0
    room = ctx.max_output_chars
    for name, lines in sorted(hits.files.items()):
        here = _first_matches(lines, min(each, limit - shown), context)
        if not here:
            break
        out.append(ctx.files.show(Path(name)))
        for line in here:
            out.append(_line(line))
            room -= len(out[-1]) + 1
            if room < 0:
                return out, shown + line.is_match
            shown += line.is_match
        left = sum(line.is_match for line in lines) - sum(line.is_match for line in here)
        if left:
            out.append(f"[{left} more in this file]")
    return out, shown


def _first_matches(lines: list[_Line], count: int, context: int) -> list[_Line]:
    """Return the first `count` matches with the context around them."""
    matches = [i for i, line in enumerate(lines) if line.is_match]
    if len(matches) <= count:
        return lines
    return lines[: min(matches[count], matches[count - 1] + 1 + context)] if count else []


def _line(line: _Line) -> str:
    text = shortened(line.text, MAX_LINE_CHARACTERS)
    return f"{line.number}{':' if line.is_match else '-'}{text}"


def _action(pattern: str, path: str, **options: Any) -> SearchAction:
    """Return the action, recording only options that differ from their defaults."""
    fields = Arguments.model_fields
    options = {name: value for name, value in options.items() if value != fields[name].default}
    return SearchAction(pattern=pattern, path=path, options=options)


TOOL = Tool(
    "grep",
    Arguments,
    Effect.READ,
    run,
    _action,
    SearchObservation,
    switch="tools.enable_editor",
    rules="path",
)
