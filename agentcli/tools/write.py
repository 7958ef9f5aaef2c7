"""write: create or replace a whole file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher, unified_diff
from pathlib import Path

from agentcli.errors import ToolError
from agentcli.events.actions import FileWriteAction
from agentcli.events.observations import FileWriteObservation
from agentcli.shell.variables import WITHHELD
from agentcli.tools.base import Effect, Tool, ToolArguments, ToolContext, ToolResult
from agentcli.tools.read import shortened
from agentcli.workspace.syntax import introduced_error
from agentcli.workspace.text import (
    TextFile,
    common_ends,
    digest,
    os_errors_told,
    split_lines,
)

MAX_DIFF_CHARACTERS = 60_000
_MAX_COMPARED_LINES = 20_000
_SHOWN_ROWS = 40
_ROW_CHARS = 300
_UNKNOWN = "how is no longer known, so read it before you rely on the rest of it"


class Arguments(ToolArguments):
    """Create a file (and its folders) or replace one that you have read."""

    path: str
    content: str
    encoding: str | None = None


def run(args: Arguments, ctx: ToolContext) -> ToolResult:
    path = ctx.files.locate(args.path)
    shown = ctx.files.show(path)
    ctx.files.require_readable(path)
    with os_errors_told(shown):
        exists = path.exists()
    before: TextFile | None = None
    replaced = False
    if exists:
        before = ctx.files.read_text(path)
        replaced = _seen_or_kept(ctx, path, before)
        if args.content.count(WITHHELD) > before.text.count(WITHHELD):
            raise ToolError(
                f"{WITHHELD} in content stands for a secret in {shown} that is not shown to you; "
                "writing it would destroy the secret. Use edit on the other lines."
            )
    # An empty file has no form yet.
    like = before if before and (before.text or before.bom) else None
    written = ctx.files.write(path, args.content, like, args.encoding)
    ctx.files.seen(path, written.digest)
    old = before.text if before else ""
    new = args.content.replace("\r\n", "\n") if before else args.content
    count = len(split_lines(new))
    size = f"{count} line{'s' * (count != 1)}"
    answer = f"Created {shown}: {size}{written.note}."
    if before:
        answer = f"Replaced {shown}: {size}{_summary(old, new)}{written.note}."
    lines = [answer]
    if replaced and old != new:
        lines += ["You had not read it. It is kept; this is what changed:"]
        lines += short_diff(shown, old, new)
    lines += filter(None, [introduced_error(path, ctx.workspace, old, new)])
    return ToolResult(
        "\n".join(lines),
        data={
            "path": shown,
            "digest": written.digest,
            "diff": diff(shown, old if before else None, new),
            "prev_exist": exists,
        },
    )


# --- what the model has not seen ------------------------------------------------------------------


def _seen_or_kept(ctx: ToolContext, path: Path, now: TextFile) -> bool:
    """Return whether a file that the model has never seen may be replaced, because the checkpoint
    before this step holds it. Raises ToolError if not, or if a file that it has seen has changed
    since."""
    try:
        require_seen(ctx, path, now)
    except ToolError as error:
        if error.error_id != "file_not_read" or not ctx.is_kept(path, _data(ctx, path, now)):
            raise
        return True
    return False


def told_changes(ctx: ToolContext, path: Path, now: TextFile) -> str:
    """Return what has changed in the file, as text for the model; "" if nothing has."""
    if not ctx.files.has_changed(path, now.digest):
        return ""
    shown, before = ctx.files.show(path), ctx.files.last_seen(path)
    head = f"{shown} had changed since you last saw it, by a command or by someone else"
    if before is None:
        return f"{head}; {_UNKNOWN}."
    if before.text == now.text:
        return f"{head}, in its line endings or encoding only."
    return "\n".join([f"{head}:", *short_diff(shown, before.text, now.text)])


def short_diff(shown: str, old: str, new: str) -> list[str]:
    """Return the rows of a diff without its names, long ones and those in the middle cut."""
    rows = diff(shown, old, new).rstrip("\n").split("\n")[2:]
    rows = [shortened(row, _ROW_CHARS) for row in rows]
    if (more := len(rows) - _SHOWN_ROWS) > 0:
        half = _SHOWN_ROWS // 2
        rows[half:-half] = [f"[{more} rows of the diff not shown]"]
    return rows


def require_seen(ctx: ToolContext, path: Path, now: TextFile) -> None:
    """Raise ToolError unless the model has seen the file as it is `now`. If it has changed, the
    error shows how, and the model has seen that by then."""
    try:
        ctx.files.check(path, now.digest)
    except ToolError as error:
        told = told_changes(ctx, path, now)
        if not told or told.endswith(f"{_UNKNOWN}."):
            raise
        if "rows of the diff not shown]" not in told:
            ctx.files.seen(path, now.digest, _data(ctx, path, now))
        said = f"Nothing was written. {told}"
        raise ToolError(said, error_id=error.error_id) from error


def _data(ctx: ToolContext, path: Path, file: TextFile) -> bytes:
    """Return the bytes of a file that has just been read. Raises ToolError if it has changed
    since."""
    data = ctx.files.read_bytes(path)
    if digest(data) != file.digest:
        ctx.files.check(path, digest(data))
        raise ToolError(f"{ctx.files.show(path)} is changing right now.", error_id="file_changed")
    return data


# --- what a change changed ----------------------------------------------------------------------


def _summary(old: str, new: str) -> str:
    """Say how much changed and where, such as ` (+3 -1, at lines 4, 20-22)`."""
    before, after = split_lines(old), split_lines(new)
    if before == after:
        return ", as before"
    if len(before) + len(after) > _MAX_COMPARED_LINES:
        return f", before {len(before)}"
    blocks = SequenceMatcher(None, before, after).get_opcodes()
    changes = [block for block in blocks if block[0] != "equal"]
    added = sum(j2 - j1 for _, _, _, j1, j2 in changes)
    removed = sum(i2 - i1 for _, i1, i2, _, _ in changes)
    places = [f"{j1 + 1}-{j2}" if j2 - j1 > 1 else f"{j1 + 1}" for _, _, _, j1, j2 in changes]
    more = ", …" if len(places) > 8 else ""
    return f" (+{added} -{removed}, at lines {', '.join(places[:8])}{more})"


def diff(shown: str, old: str | None, new: str) -> str:
    """Return a unified diff, cut at MAX_DIFF_CHARACTERS; `old` is None for a new file."""
    before, after = _diff_lines(old or ""), _diff_lines(new)
    names = ("/dev/null" if old is None else f"a/{shown}", f"b/{shown}")
    if len(before) + len(after) <= _MAX_COMPARED_LINES:
        lines = unified_diff(before, after, *names)
    else:
        lines = _coarse_diff(before, after, *names)
    parts: list[str] = []
    room = MAX_DIFF_CHARACTERS
    for line in lines:
        room -= len(line)
        if room < 0:
            parts.append("[diff cut]\n")
            break
        parts.append(line)
    return "".join(parts)


def _diff_lines(text: str) -> list[str]:
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n\\ No newline at end of file\n"
    return lines


def _coarse_diff(before: list[str], after: list[str], name: str, new_name: str) -> Iterator[str]:
    """Yield one hunk from the first to the last change, because comparing long files line by line
    may take minutes."""
    head, tail = common_ends(before, after)
    removed, added = before[head : len(before) - tail], after[head : len(after) - tail]
    if removed or added:
        yield f"--- {name}\n+++ {new_name}\n"
        yield f"@@ -{head + 1},{len(removed)} +{head + 1},{len(added)} @@\n"
        yield from (f"-{line}" for line in removed)
        yield from (f"+{line}" for line in added)


TOOL = Tool(
    "write",
    Arguments,
    Effect.WRITE,
    run,
    FileWriteAction,
    FileWriteObservation,
    switch="tools.enable_editor",
    rules="path",
)
