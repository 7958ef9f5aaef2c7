"""read: show text with line numbers, images, PDFs, notebooks and folders."""

from __future__ import annotations

import importlib
import io
import json
import mimetypes
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from agentcli.errors import ToolError
from agentcli.events.actions import FileReadAction
from agentcli.events.observations import FileReadObservation
from agentcli.events.texts import well_formed
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult
from agentcli.workspace.encodings import start_as_text
from agentcli.workspace.images import LARGEST_FILE, NEEDED_BYTES, ImageFault, data_url, kind_of
from agentcli.workspace.names import display_path, size_text
from agentcli.workspace.opening import Entry
from agentcli.workspace.text import MAX_FILE_BYTES, TextFile, digest, split_lines
from agentcli.workspace.tracking import FileTracker
from agentcli.workspace.walk import existing

MAX_LINES = 2000
MAX_CHARACTERS = 100_000
MAX_LINE_CHARACTERS = 2000
MAX_ENTRIES = 500
_SAMPLE_BYTES = 1_000_000
"""Bytes of a large file that are examined to tell whether it is text."""

_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff")
_TERMINAL_SEQUENCE = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


class Arguments(ToolArguments):
    """Read a file (text with line numbers, image, PDF, notebook) or list a folder."""

    path: str
    start: int = 1
    end: int | None = None


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    if args.start < 1 or (args.end is not None and args.end < args.start):
        raise ToolError(
            "start and end are line numbers from 1, end not before start.", error_id="bad_range"
        )
    path, info = existing(ctx.files, args.path)
    shown = ctx.files.show(path)
    if stat.S_ISDIR(info.st_mode):
        return ToolResult(_listing(ctx.files, path), data={"path": shown})
    room = min(MAX_CHARACTERS, ctx.room_chars)
    limit = MAX_FILE_BYTES
    if info.st_size > limit:
        if not _is_large_image(ctx.files, path, info.st_size):
            return _part_of_large(args, ctx.files, path, room)
        limit = LARGEST_FILE
    data = ctx.files.read_bytes(path, limit)
    result = _content(args, ctx.files, path, data, room)
    ctx.files.seen(path, digest(data), data)
    return result


def _content(args: Arguments, files: FileTracker, path: Path, data: bytes, room: int) -> ToolResult:
    shown = files.show(path)
    facts = {"path": shown, "digest": digest(data)}
    if kind := kind_of(data):
        return _image(kind, shown, data, facts)
    if data.startswith(b"%PDF-"):
        lines, notes = _pdf_lines(data, shown, args.end or args.start + MAX_LINES)
        return _lines(args, lines, notes, facts, room)
    file = files.text_of(path, data)
    if file is None:
        kind = mimetypes.guess_type(path.name)[0] or "of unknown type"
        ways = "file, strings, xxd, or a program for its type"
        if kind.startswith("image/"):
            ways = "file tells what it is; a PNG made of it can be read"
        raise ToolError(
            f"{shown} is binary ({kind}, {size_text(len(data))}), not shown. Look at it with bash "
            f"({ways}).",
            error_id="binary_file",
        )
    cells = _notebook_lines(file.text) if path.suffix == ".ipynb" else None
    if cells is not None:
        return _lines(args, cells, ["a notebook's cells; edit works on its JSON text"], facts, room)
    return _lines(args, split_lines(file.text), _peculiarities(path, file), facts, room)


# --- text ---------------------------------------------------------------------------------------


def shortened(line: str, limit: int) -> str:
    return line if len(line) <= limit else f"{line[:limit]} […]"


def numbered(lines: Iterable[str], first: int) -> Iterator[str]:
    """Number lines in the form that all tools use to show parts of a file."""
    return (f"{number}\t{line}" for number, line in enumerate(lines, first))


def _lines(
    args: Arguments, lines: list[str], notes: list[str], facts: dict[str, Any], room: int
) -> ToolResult:
    """Return the wanted lines, in at most about `room` characters."""
    total = len(lines)
    if not lines:
        return ToolResult("[empty file]", data={**facts, "lines_total": 0})
    if args.start > total:
        raise ToolError(f"{facts['path']} has only {total} lines.", error_id="bad_range")
    wanted = lines[args.start - 1 : args.end][:MAX_LINES]
    limit = MAX_LINE_CHARACTERS if len(wanted) > 1 else room
    if any(len(line) > limit for line in wanted) and len(wanted) > 1:
        notes = [*notes, "a line read alone (start = end) is not cut"]
    output, _ = _fitting(numbered((_cut(line, limit) for line in wanted), args.start), room)
    last = args.start + len(output) - 1
    if last < min(args.end or total, total):
        notes = [f"lines {args.start}-{last} of {total}; read on with start={last + 1}", *notes]
    elif last < total:
        notes = [f"{total} lines in all", *notes]
    if notes:
        output.append(f"[{'; '.join(notes)}]")
    data = {**facts, "lines_shown": (args.start, last), "lines_total": total}
    whole = last == total and args.start == 1 and all(len(line) <= limit for line in lines)
    return ToolResult("\n".join(output), data=data, is_whole=whole)


def _fitting(lines: Iterable[str], room: int) -> tuple[list[str], bool]:
    """Return the first `lines` that fit into `room` characters, at least one, and whether nothing
    had to be cut."""
    output: list[str] = []
    for line in lines:
        room -= len(line) + 1
        if room < 0 and output:
            break
        output.append(line)
    return output, room >= 0


def _part_of_large(args: Arguments, files: FileTracker, path: Path, room: int) -> ToolResult:
    """Return lines of a text too large to be read as a whole, and so too large to edit."""
    shown = files.show(path)
    with files.opened(path) as file:
        charset = files.conventions(path).charset
        found = start_as_text(file.read(_SAMPLE_BYTES), path.name, charset)
        size = size_text(os.fstat(file.fileno()).st_size)
        if found is None or found.encoding.startswith("utf-16"):
            raise ToolError(
                f"{shown} has {size}, and of files above {size_text(MAX_FILE_BYTES)} only text is "
                "read, in UTF-8 or a similar encoding; use bash (file, strings, xxd).",
                error_id="file_too_large",
            )
        file.seek(0)
        last = min(args.end or sys.maxsize, args.start + MAX_LINES - 1)
        limit = room if args.start == args.end else MAX_LINE_CHARACTERS
        lines = _long_lines(file, 4 * limit)
        wanted = (
            _cut(raw.decode(found.encoding, "replace").removesuffix("\r"), limit)
            + f" [+{left_out:,} bytes, cut]" * bool(left_out)
            for raw, left_out in islice(lines, args.start - 1, last)
        )
        output, fits = _fitting(numbered(wanted, args.start), room)
        whole = next(lines, None) is None and fits
    if not output:
        raise ToolError(f"{shown} has fewer than {args.start} lines.", error_id="bad_range")
    last = args.start + len(output) - 1
    more = "" if whole else f"; read on with start={last + 1}, or look with grep"
    more += f"; encoding unknown; {found.encoding} is a guess" if found.guessed else ""
    output.append(f"[lines {args.start}-{last} of a file of {size}{more}]")
    return ToolResult("\n".join(output), data={"path": shown, "lines_shown": (args.start, last)})


def _long_lines(file: BinaryIO, limit: int) -> Iterator[tuple[bytes, int]]:
    """Yield each line cut to `limit` bytes, and how many bytes were left out."""
    while line := file.readline(limit):
        left_out = 0
        rest = line
        while len(rest) == limit and not rest.endswith(b"\n"):
            rest = file.readline(limit)
            left_out += len(rest.removesuffix(b"\n"))
        yield line.removesuffix(b"\n"), left_out


def _cut(line: str, limit: int) -> str:
    if len(line) <= limit:
        return line
    return f"{line[:limit]} [+{len(line) - limit} characters, cut]"


def _peculiarities(path: Path, file: TextFile) -> list[str]:
    """Return what the lines don't show but a command written by the model may depend on."""
    notes = []
    if path.suffix.lower() in _IMAGE_SUFFIXES:
        notes.append("this is text, not an image as its name says")
    if file.endings or file.newline != "\n":
        names = {"\r\n": "CRLF", "\r": "CR"}
        name = "mixed" if file.endings else names.get(file.newline or "", repr(file.newline))
        notes.append(f"{name} line endings")
    if file.guessed:
        notes.append(f"encoding unknown; {file.encoding} is a guess")
    elif file.encoding != "utf-8" or file.bom:
        why = f", {file.declared}" if file.declared else " with BOM" if file.bom else ""
        notes.append(file.encoding + why)
    if not file.text.endswith("\n"):
        notes.append("no newline at the end")
    return notes


# --- other kinds --------------------------------------------------------------------------------


def _is_large_image(files: FileTracker, path: Path, size: int) -> bool:
    """Whether the file is an image that can be scaled down."""
    with files.opened(path) as file:
        return size <= LARGEST_FILE and kind_of(file.read(NEEDED_BYTES)) is not None


def _image(kind: str, shown: str, data: bytes, facts: dict[str, Any]) -> ToolResult:
    try:
        url = data_url(data)
    except ImageFault as fault:
        raise ToolError(f"{shown} {fault}.", error_id="unusable_image") from fault
    return ToolResult(f"[{kind} image, {size_text(len(data))}]", images=(url,), data=facts)


def _pdf_lines(data: bytes, shown: str, last: int) -> tuple[list[str], list[str]]:
    """Return the text up to line `last`, in whole pages, and notes about the rest."""
    try:
        pypdf: Any = importlib.import_module("pypdf")
    except ImportError as error:
        raise ToolError(
            f"{shown} is a PDF. Get its text with bash: pdftotext -layout FILE - (poppler-utils).",
            error_id="unsupported_file",
        ) from error
    try:
        pages = pypdf.PdfReader(io.BytesIO(data)).pages
        lines: list[str] = []
        for number, page in enumerate(pages, 1):
            lines += [f"--- page {number} of {len(pages)} ---", *split_lines(page.extract_text())]
            if len(lines) >= last and number < len(pages):
                return lines, [f"pages after {number} not yet counted; a greater end shows them"]
    except pypdf.errors.PyPdfError as error:
        raise ToolError(f"{shown}: damaged PDF: {error}", error_id="unsupported_file") from error
    return lines, []


def _notebook_lines(text: str) -> list[str] | None:
    """Return the cells and their outputs; None when `text` is not a notebook."""
    try:
        cells = json.loads(text)["cells"]
        parts = [part for number, cell in enumerate(cells, 1) for part in _cell(number, cell)]
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    return split_lines("\n".join(part.removesuffix("\n") for part in parts))


def _cell(number: int, cell: dict[str, Any]) -> Iterator[str]:
    yield f"--- cell {number}, {cell['cell_type']} ---"
    yield well_formed("".join(cell["source"]))
    for output in cell.get("outputs", []):
        data = output.get("data", {})
        text = output.get("text") or data.get("text/plain") or output.get("traceback") or ""
        joiner = "\n" if "traceback" in output else ""
        yield f"--- output{''.join(f', {kind}' for kind in data if kind != 'text/plain')} ---"
        yield _TERMINAL_SEQUENCE.sub("", well_formed(joiner.join(text)))


def _listing(files: FileTracker, folder: Path) -> str:
    entries = files.list_folder(folder)
    lines = [_entry(entry) for entry in entries[:MAX_ENTRIES]]
    if len(entries) > MAX_ENTRIES:
        lines.append(f"[{len(entries) - MAX_ENTRIES} more; use glob or bash]")
    return "\n".join([f"{files.show(folder)}: {len(entries)} entries", *lines])


def _entry(entry: Entry) -> str:
    name = display_path(entry.name)
    mode = entry.info.st_mode
    if stat.S_ISLNK(mode):
        return f"{name} -> {display_path(entry.link)}"
    if stat.S_ISDIR(mode):
        return f"{name}/"
    size = size_text(entry.info.st_size) if stat.S_ISREG(mode) else "not a regular file"
    return f"{name}  {size}"


TOOL = Tool(
    "read",
    Arguments,
    Effect.READ,
    run,
    FileReadAction,
    FileReadObservation,
    switch="tools.enable_editor",
    rules="path",
)
