"""grep: a regular expression in the contents of files; with ripgrep where it is installed."""

from __future__ import annotations

import functools
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Timer

from agentcli.errors import ToolError
from agentcli.events.actions import SearchAction
from agentcli.events.observations import SearchObservation
from agentcli.programs import find_program
from agentcli.runtime.files import FileLedger, decode, os_errors_told
from agentcli.runtime.matching import Matcher
from agentcli.runtime.walk import NEVER_SEARCHED, Glob, no_such_file, walk
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult
from agentcli.tools.read import split_lines

MAX_SECONDS = 30
MAX_LINE_CHARACTERS = 300
MAX_COLLECTED = 10_000

# ripgrep cuts lines by bytes, of which a character has 4 at most.
_RIPGREP = (
    *("--no-config", "--color=never", "--no-heading", "--with-filename", "--line-number", "--null"),
    *("--hidden", f"--glob=!{NEVER_SEARCHED}", "--no-require-git", "--no-ignore-global", "--crlf"),
    *(f"--max-columns={4 * MAX_LINE_CHARACTERS}", "--max-columns-preview"),
    *("--no-context-separator", "--no-messages"),
)
_OUTPUT_LINE = re.compile(rb"(\d+)([:-])(.*)", re.S)
_POSIX_CLASSES = {
    "[:space:]": r"\s",
    "[:digit:]": r"\d",
    "[:alpha:]": "a-zA-Z",
    "[:alnum:]": "a-zA-Z0-9",
    "[:upper:]": "A-Z",
    "[:lower:]": "a-z",
}


class Grep(ToolArguments):
    """Search files by regex, skipping ignored ones. glob: *.py, src/**"""

    pattern: str
    path: str = "."
    glob: str | None = None
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
    """What was found, by path; `cut` says why there may be more, `skipped` counts unread files."""

    files: dict[str, list[_Line]] = field(default_factory=dict)
    matches: int = 0
    cut: str = ""
    skipped: int = 0

    def add(self, path: str, line: _Line) -> None:
        self.files.setdefault(path, []).append(line)
        self.matches += line.is_match
        if self.matches >= MAX_COLLECTED:
            self.cut = f"stopped at {MAX_COLLECTED} matches"


def run(args: Grep, ctx: ToolContext) -> ToolResult:
    if not args.pattern or re.search("[\0\ud800-\udfff]", args.pattern):
        raise ToolError(
            "pattern is empty or has characters that no text has.", error_id="bad_pattern"
        )
    path = ctx.files.locate(args.path)
    ctx.files.require_readable(path)
    with os_errors_told(ctx.files.show(path)):
        try:
            mode = path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError) as error:
            raise no_such_file(ctx.files, path) from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise ToolError(f"{ctx.files.show(path)} is no file or folder.", error_id="not_a_file")
    program = find_program("rg")
    hits = _with_ripgrep(program, args, path, ctx.files) if program else None
    if hits is None:
        hits = _with_python(args, path, ctx.files)
    return _report(args, ctx, path, hits)


# --- the two ways to search ---------------------------------------------------------------------


def _with_ripgrep(program: str, args: Grep, path: Path, ledger: FileLedger) -> _Hits | None:
    """None when ripgrep does not understand the pattern, as with look-around."""
    options = [*_RIPGREP, f"--context={max(args.context, 0)}"]
    options += ["--ignore-case"] * args.ignore_case + ["--multiline"] * _spans_lines(args.pattern)
    options += ["--max-count=1", "--context=0"] * args.files_only
    if args.glob and re.fullmatch(r"[\w.*?{},-]+", args.glob):
        # Unlike --glob, a type does not bring ignored files back. Other forms are sorted out below.
        options += [f"--type-add=wanted:{args.glob}", "--type=wanted"]
    wanted = Glob(args.glob) if args.glob else None
    hits = _Hits()

    @functools.cache
    def counts(name: str) -> bool:
        if wanted is not None and not wanted.matches(_inside(name, path)):
            return False
        return ledger.may_read(Path(name))

    expired = Event()
    with subprocess.Popen(
        [program, *options, "--", args.pattern, str(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8"},
    ) as process:

        def expire() -> None:
            expired.set()
            process.kill()

        timer = Timer(MAX_SECONDS, expire)
        timer.start()
        try:
            assert process.stdout is not None, "it was asked for"
            for name, line in _parse(process.stdout):
                if counts(name):
                    hits.add(name, line)
                if hits.cut:
                    break
            else:
                process.wait()
        finally:
            timer.cancel()
            process.kill()
    if expired.is_set():
        hits.cut = f"stopped after {MAX_SECONDS} s"
    return None if process.returncode == 2 and not hits.files else hits


def _parse(output: Iterator[bytes]) -> Iterator[tuple[str, _Line]]:
    """The lines of `--null` output: path, NUL, number, `:` or `-`, text."""
    start = b""
    for raw in output:
        name, null, rest = (start + raw).partition(b"\0")
        line = _OUTPUT_LINE.fullmatch(rest)
        if line:
            number, mark, text = line.groups()
            yield (
                os.fsdecode(name),
                _Line(int(number), mark == b":", _to_text(text.rstrip(b"\r\n"))),
            )
        # Without a NUL it is a remark on a binary file, or a file name with a newline in it.
        start = b"" if null or b": binary file matches" in raw else start + raw


def _to_text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError:
        return line.decode("latin-1")


def _with_python(args: Grep, path: Path, ledger: FileLedger) -> _Hits:
    pattern, flags = _compile(args)
    context = 0 if args.files_only else max(args.context, 0)
    hits = _Hits()
    with Matcher(pattern, flags, MAX_SECONDS, across=_spans_lines(args.pattern)) as matcher:
        for file in _candidates(args, path, ledger):
            try:
                decoded = decode(ledger.read_bytes(file))
            except ToolError:
                hits.skipped += 1
                continue
            if decoded is None:
                continue
            text = decoded[0].replace("\r\n", "\n")
            matching = matcher.lines(text)
            if matching is None:
                hits.cut = f"stopped after {MAX_SECONDS} s, in {ledger.show(file)}"
            elif matching:
                lines = split_lines(text)
                matching = {min(matching)} if args.files_only else matching
                for number in _around(matching, context, len(lines)):
                    hits.add(str(file), _Line(number + 1, number in matching, lines[number]))
            if hits.cut:
                break
    return hits


def _candidates(args: Grep, path: Path, ledger: FileLedger) -> Iterator[Path]:
    wanted = Glob(args.glob) if args.glob else None
    if not path.is_dir():
        if wanted is None or wanted.matches(path.name):
            yield path
        return
    for found in walk(path, ledger.hidden_below(path)):
        if found.entry.is_file(follow_symlinks=False) and (
            wanted is None or wanted.matches(found.path)
        ):
            yield path / found.path


def _compile(args: Grep) -> tuple[str, int]:
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


def _report(args: Grep, ctx: ToolContext, path: Path, hits: _Hits) -> ToolResult:
    limit = max(args.max_results, 1)
    notes = [hits.cut] if hits.cut else []
    if hits.skipped:
        notes.append(f"{hits.skipped} files could not be read or are over 10 MB")
    names = sorted(hits.files)
    if args.files_only:
        lines = [ctx.files.show(Path(name)) for name in names[:limit]]
        shown, total, unit = len(lines), len(names), "files"
    else:
        lines, shown = _grouped(ctx, hits, limit, args.context)
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
    """Lines under their file's path, and how many matches are among them. Where not all fit, the
    longest lists are cut first, so that one file can't hide the others."""
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
    """The first `count` matches with the context around them."""
    matches = [i for i, line in enumerate(lines) if line.is_match]
    if len(matches) <= count:
        return lines
    return lines[: min(matches[count], matches[count - 1] + 1 + context)] if count else []


def _line(line: _Line) -> str:
    text = line.text
    if len(text) > MAX_LINE_CHARACTERS:
        text = f"{text[:MAX_LINE_CHARACTERS]} […]"
    return f"{line.number}{':' if line.is_match else '-'}{text}"


def _inside(name: str, path: Path) -> str:
    return os.path.relpath(name, path) if name != str(path) else path.name


def _to_action(args: Grep) -> SearchAction:
    options = args.model_dump(exclude={"pattern", "path"}, exclude_defaults=True)
    return SearchAction(pattern=args.pattern, path=args.path, options=options)


def _to_observation(args: Grep, result: ToolResult) -> SearchObservation:
    return SearchObservation(content=result.output, **result.data)


TOOL = Tool("grep", Grep, Effect.READ, run, _to_action, _to_observation)
