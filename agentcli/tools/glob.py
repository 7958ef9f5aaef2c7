"""glob: find files by name."""

from __future__ import annotations

import heapq
import re
import stat
import time
from collections.abc import Container
from functools import partial
from pathlib import Path

from agentcli.errors import ToolError
from agentcli.events.actions import GlobAction
from agentcli.events.observations import SearchObservation
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult
from agentcli.workspace.names import in_outputs, parse_path
from agentcli.workspace.walk import Glob, WalkedEntry, existing, walk

MAX_RESULTS = 200
MAX_SECONDS = 30


class Arguments(ToolArguments):
    """Find files (*.py: at any depth; src/**/*.{ts,js}), newest first."""

    pattern: str
    path: str = "."


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    fixed, pattern = _split(args.pattern)
    top, info = existing(ctx.files, args.path)
    if not stat.S_ISDIR(info.st_mode):
        raise ToolError(f"{ctx.files.show(top)} is a file, not a folder.", error_id="not_a_folder")
    if fixed:
        alone = fixed[0] in "/~" or in_outputs(fixed) is not None
        top = ctx.files.locate(fixed) if alone else top / parse_path(fixed)
    place = ctx.files.require_readable(top)
    found, folders, note = _search(place, pattern, ctx.files.unseen_below(place, "glob"))
    # A pattern that names a folder exactly wants it; one that lists files wants no folders.
    found = found or folders
    newest = heapq.nlargest(MAX_RESULTS, found, key=partial(_age_and_name, place))
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


def _search(
    top: Path, pattern: str, unseen: Container[str]
) -> tuple[list[WalkedEntry], list[WalkedEntry], str]:
    wildcards = Glob(pattern)
    files: list[WalkedEntry] = []
    folders: list[WalkedEntry] = []
    deadline = time.monotonic() + MAX_SECONDS
    for each in walk(top, unseen):
        if time.monotonic() > deadline:
            return files, folders, f"[stopped after {MAX_SECONDS} s]"
        if wildcards.matches(each.path):
            (folders if each.is_folder else files).append(each)
    return files, folders, ""


def _age_and_name(top: Path, found: WalkedEntry) -> tuple[float, list[int]]:
    """Return a key by which the newest is the largest, then the first by name."""
    try:
        age = (top / found.path).lstat().st_mtime
    except OSError:
        age = 0.0
    return age, [-ord(character) for character in found.path]


TOOL = Tool(
    "glob",
    Arguments,
    Effect.READ,
    run,
    GlobAction,
    SearchObservation,
    switch="tools.enable_editor",
    rules="path",
)
