"""grep: search file contents for a regular expression; glob: find files by name."""

from __future__ import annotations

import heapq
import re
import stat
import time
from pathlib import Path
from typing import Any

from agentcli.errors import ToolError
from agentcli.events.actions import GlobAction, SearchAction
from agentcli.events.observations import SearchObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult
from agentcli.tools.read import shortened
from agentcli.workspace.names import in_outputs, parse_path
from agentcli.workspace.ripgrep import MAX_LINE_CHARACTERS, Line
from agentcli.workspace.search import Hits, Query, Search, why_no_match
from agentcli.workspace.walk import WalkedEntry, existing, walk
from agentcli.workspace.wildcards import Glob

MAX_SECONDS = 30
MAX_PATTERN_CHARACTERS = 10_000
MAX_CONTEXT = 100
MAX_RESULTS = 200
"""Most files that glob lists."""


class GrepArguments(ToolArguments):
    """Search files by regex, skipping ignored ones. glob: *.py, src/**"""

    pattern: str
    path: str = "."
    glob: str | None = None
    word: bool = False
    ignore_case: bool = False
    context: int = 0
    files_only: bool = False
    max_results: int = 100


def _grep(args: GrepArguments, ctx: ToolContext) -> ToolResult:
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
    context = 0 if args.files_only else min(max(args.context, 0), MAX_CONTEXT)
    query = Query(args.pattern, args.glob, args.ignore_case, context, args.files_only, args.word)
    hits = Search(query, path, ctx.files, MAX_SECONDS).run()
    limit = max(args.max_results, 1)
    notes = [hits.cut] if hits.cut else []
    if hits.skipped:
        notes.append(f"{hits.skipped} files could not be read or are over 10 MB")
    names = sorted(hits.files)
    if args.files_only:
        lines = [ctx.files.show(Path(name)) for name in names[:limit]]
        shown, total, unit = len(lines), len(names), "files"
    else:
        lines, shown = _grouped(ctx, hits, limit, context)
        total, unit = hits.matches, f"matches in {len(names)} files"
    if shown < total:
        notes.insert(0, f"{shown} of {total} {unit}; narrow by path or glob, or raise max_results")
    if not total:
        where = ctx.files.show(path) + (f", files {args.glob}" if args.glob else "")
        lines = [f"No matches in {where}"]
        notes += why_no_match(args.pattern)
    if notes:
        lines.append(f"[{'; '.join(notes)}]")
    data = {"matches": total, "truncated": shown < total or bool(hits.cut)}
    return ToolResult("\n".join(lines), data=data)


def _grouped(ctx: ToolContext, hits: Hits, limit: int, context: int) -> tuple[list[str], int]:
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
            text = shortened(line.text, MAX_LINE_CHARACTERS)
            out.append(f"{line.number}{':' if line.is_match else '-'}{text}")
            room -= len(out[-1]) + 1
            if room < 0:
                return out, shown + line.is_match
            shown += line.is_match
        left = sum(line.is_match for line in lines) - sum(line.is_match for line in here)
        if left:
            out.append(f"[{left} more in this file]")
    return out, shown


def _first_matches(lines: list[Line], count: int, context: int) -> list[Line]:
    """Return the first `count` matches with the context around them."""
    matches = [i for i, line in enumerate(lines) if line.is_match]
    if len(matches) <= count:
        return lines
    return lines[: min(matches[count], matches[count - 1] + 1 + context)] if count else []


def _action(pattern: str, path: str, **options: Any) -> SearchAction:
    """Return the action, recording only options that differ from their defaults."""
    fields = GrepArguments.model_fields
    options = {name: value for name, value in options.items() if value != fields[name].default}
    return SearchAction(pattern=pattern, path=path, options=options)


GREP = Tool(
    "grep",
    GrepArguments,
    Effect.READ,
    _grep,
    _action,
    SearchObservation,
    switch="tools.enable_editor",
    rules="path",
)


class GlobArguments(ToolArguments):
    """Find files (*.py: at any depth; src/**/*.{ts,js}), newest first."""

    pattern: str
    path: str = "."


def _glob(args: GlobArguments, ctx: ToolContext) -> ToolResult:
    fixed, pattern = _split(args.pattern)
    top, info = existing(ctx.files, args.path)
    if not stat.S_ISDIR(info.st_mode):
        raise ToolError(f"{ctx.files.show(top)} is a file, not a folder.", error_id="not_a_folder")
    if fixed:
        alone = fixed[0] in "/~" or in_outputs(fixed) is not None
        named = ctx.files.locate(fixed) if alone else top / parse_path(fixed)
        if alone or fixed.isascii() or named.exists():
            top = named
        else:
            # Its letters may be stored in another Unicode form.
            pattern = f"{fixed}/{pattern.lstrip('/')}"
    place = ctx.files.require_readable(top)
    wildcards, note = Glob(pattern), ""
    files: list[WalkedEntry] = []
    folders: list[WalkedEntry] = []
    deadline = time.monotonic() + MAX_SECONDS
    for each in walk(place, ctx.files.guard.unseen_below(place, "glob")):
        if time.monotonic() > deadline:
            note = f"[stopped after {MAX_SECONDS} s]"
            break
        if wildcards.matches(each.path):
            (folders if each.is_folder else files).append(each)
    # A pattern that names a folder exactly wants it; one that lists files wants no folders.
    found = files or folders

    def age_and_name(found: WalkedEntry) -> tuple[float, list[int]]:
        try:
            age = (place / found.path).lstat().st_mtime
        except OSError:
            age = 0.0
        return age, [-ord(character) for character in found.path]

    newest = heapq.nlargest(MAX_RESULTS, found, key=age_and_name)
    lines = [ctx.files.show(top / each.path) + "/" * each.is_folder for each in newest]
    if not lines:
        lines = [f"No files match {args.pattern} in {ctx.files.show(ctx.files.locate(args.path))}"]
    if len(found) > MAX_RESULTS:
        note = f"[{MAX_RESULTS} of {len(found)}; narrow the pattern]" + note
    data = {"matches": len(found), "truncated": bool(note)}
    return ToolResult("\n".join([*lines, note] if note else lines), data=data)


def _split(pattern: str) -> tuple[str, str]:
    """Split a pattern into the folders it names and the rest, which has wildcards. A folder asked
    for by name is searched even if it is ignored, and nothing beside it is looked at."""
    parts = pattern.rstrip("/").split("/")
    first = next((i for i, part in enumerate(parts) if re.search(r"[*?\[{\\]", part)), len(parts))
    first = min(first, len(parts) - 1)
    fixed = "/".join(parts[:first])
    # A bare name after a named folder means an entry directly in that folder.
    anchored = first > 0 and first == len(parts) - 1
    rest = "/" + parts[first] if anchored else "/".join(parts[first:])
    return fixed or "/" * pattern.startswith("/"), rest


GLOB = Tool(
    "glob",
    GlobArguments,
    Effect.READ,
    _glob,
    GlobAction,
    SearchObservation,
    switch="tools.enable_editor",
    rules="path",
)

TOOL = (GLOB, GREP)
