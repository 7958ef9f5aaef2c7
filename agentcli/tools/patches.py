"""Patches in the form that OpenAI's models are trained on, as edits of one file by whole lines:
https://github.com/openai/codex/blob/main/codex-rs/apply-patch/apply_patch_tool_instructions.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agentcli.errors import ToolError
from agentcli.tools.near_text import not_found, occurrences

_COMMAND = re.compile(
    r"\s*apply_?patch\s*<<-?\s*(?P<quote>['\"]?)(?P<end>\w+)(?P=quote)[ \t]*\n"
    r"(?P<patch>.*?\n)(?P=end)\s*",
    re.DOTALL,
)
_HEAD = re.compile(r"\*\*\* (?P<verb>Add|Update|Delete) File: (?P<path>.+?)\s*")
BEGIN_PATCH = "*** Begin Patch"
_ENDS = ("*** End Patch", "*** End of File")


def patch_in(command: object) -> str | None:
    """Return the patch that a command applies; None if it does anything else, or more."""
    match command:
        case ["apply_patch" | "applypatch", str() as patch]:
            return patch
        case ["bash" | "sh" | "zsh", "-lc" | "-c", str() as script]:
            command = script
    found = _COMMAND.fullmatch(command) if isinstance(command, str) else None
    return found["patch"] if found else None


def call_for(patch: str) -> tuple[str, dict[str, Any]]:
    """Return the call of `write` or `edit` that does what `patch` says. Raises ToolError for one of
    several files, or one that does more than to add or update a file."""
    lines = patch.replace("\r\n", "\n").strip("\n").split("\n")
    if lines[0].strip() != BEGIN_PATCH:
        raise _unusable(f"it does not begin with {BEGIN_PATCH}")
    heads = [at for at, line in enumerate(lines) if _HEAD.fullmatch(line)]
    if len(heads) != 1 or heads[0] != 1:
        raise _unusable("send one call for each file, with one *** Add File: or *** Update File:")
    head = _HEAD.fullmatch(lines[1])
    assert head is not None
    body = [line for line in lines[2:] if line.strip() not in _ENDS]
    if head["verb"] == "Delete" or any(line.startswith("*** Move to:") for line in body):
        raise _unusable("delete and move files with bash")
    if head["verb"] == "Add":
        if any(not line.startswith("+") for line in body):
            raise _unusable("each line of a new file begins with +")
        return "write", {"path": head["path"], "content": "".join(f"{row[1:]}\n" for row in body)}
    return "edit", {"path": head["path"], "edits": list(_chunks(body))}


def _chunks(body: list[str]) -> Iterator[dict[str, str]]:
    """Yield what each part of the patch replaces, and the line that it comes after."""
    parts: list[tuple[str, list[str]]] = []
    for line in body:
        if line.startswith("@@"):
            # Several in a row name places within each other; the last is the nearest.
            anchor = line[2:].removesuffix("@@").removeprefix(" ")
            parts.append((anchor if not re.match(r"-\d+(,\d+)? \+\d+", anchor) else "", []))
        else:
            parts = parts or [("", [])]
            parts[-1][1].append(line or " ")
    for anchor, rows in parts:
        if not rows:
            continue
        if strange := next((row for row in rows if row[0] not in " +-"), ""):
            raise _unusable(f"a line begins with neither of space, + and -: {strange[:80]}")
        old = "".join(f"{row[1:]}\n" for row in rows if row[0] != "+")
        new = "".join(f"{row[1:]}\n" for row in rows if row[0] != "-")
        yield {"old_str": old, "new_str": new, "after": anchor}


def find_lines(shown: str, text: str, old: str, after: str) -> int:
    """Return where the whole lines `old` are in `text`, which ends with a line's end: the only
    place, or the first one after the line `after`. Without `old`, return the place after that
    line, or the end. Raises ToolError."""
    start = 0
    if after:
        found = re.search(rf"^[ \t]*{re.escape(after.strip())}[^\n]*\n", text, re.MULTILINE)
        if found is None:
            raise ToolError(not_found(shown, text, after), error_id="no_match")
        start = found.end()
    if not old:
        return start if after else len(text)
    places = [at for at in occurrences(text, old) if at == 0 or text[at - 1] == "\n"]
    if not places:
        raise ToolError(not_found(shown, text, old), error_id="no_match")
    later = [at for at in places if at >= start]
    if len(places) == 1 or (after and later):
        return (later or places)[0]
    numbers = ", ".join(str(text.count("\n", 0, at) + 1) for at in places[:20])
    raise ToolError(
        f"These lines are found {len(places)} times in {shown}, at lines {numbers}. Add "
        "surrounding lines, or an @@ line, to mean one of them.",
        error_id="several_matches",
    )


def _unusable(why: str) -> ToolError:
    return ToolError(f"This patch was not applied: {why}.", error_id="invalid_tool_call")
