"""File names of any bytes: shown so that they can't harm a terminal, and parsed back."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

from agentcli.errors import ToolError

GENERATED = frozenset(
    (
        "__pycache__",
        ".cache",
        ".hypothesis",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        ".tox",
        ".venv",
        "node_modules",
        "venv",
    )
)
"""Folders that tools fill by themselves; what is in them does not count as a change."""
PROJECT_SKILL_FOLDERS = (
    ".agents/skills",
    ".agent/skills",
    ".openhands/microagents",
    ".claude/skills",
)
"""Where a project keeps its skills; of two with one name, the one in the first folder counts."""
OUTPUTS_VARIABLE = "AGENT_OUT"
"""Environment variable with which commands find the folder of complete outputs. The file tools know
the folder by this name too. A fork or copy of a session has another folder with the same files."""
_NAMED_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\x1b": "\\e"}
_ESCAPE = re.compile(
    rb"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|(.))", re.S
)
_LETTERS = dict(zip(b"abeEfnrtv", b"\a\b\x1b\x1b\f\n\r\t\v", strict=True))


def display_path(path: Path | str, workspace: Path | None = None) -> str:
    """Return `path` for people and models, relative if it is inside `workspace`. A name that can't
    be shown as it is gets bash quoting ($'caf\\xe9.txt') and can be pasted into bash."""
    text = str(path)
    if workspace is not None and Path(path).is_relative_to(workspace):
        text = str(Path(path).relative_to(workspace))
    if text.startswith("~"):
        text = f"./{text}"
    if text.isprintable() and not text.startswith("$'"):
        return text
    return "$'" + "".join(map(_escape, text)) + "'"


def escaped_path(shown: str) -> str:
    """Return a path as bash can read it, with every letter beyond ASCII as its bytes."""
    if shown.startswith("$'"):
        return shown
    plain = (c if c.isascii() and c not in _NAMED_ESCAPES else _bytes_of(c) for c in shown)
    return f"$'{''.join(plain)}'"


def first_names(names: Sequence[str], most: int) -> str:
    """Return the first `most` names on one line, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def quoted_path(path: Path | str, longest: int | None = None) -> str:
    """Return `path`, cut to `longest` characters, in quotes for a message to a model in brackets:
    no name can end the message or pass for words of the user."""
    shown = json.dumps(display_path(path)[:longest], ensure_ascii=False)
    return shown.replace("]", "\\u005d")


def _escape(character: str) -> str:
    if character in _NAMED_ESCAPES:
        return _NAMED_ESCAPES[character]
    if character.isprintable():
        return character
    return _bytes_of(character)


def _bytes_of(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(text))


def output_name(path: Path) -> str:
    """Return the model's name for a file in the folder of outputs."""
    return f"${OUTPUTS_VARIABLE}/{path.name}"


def in_outputs(text: str) -> str | None:
    """Return the rest of a path that begins with the name of the folder of outputs, else None."""
    for name in (f"${OUTPUTS_VARIABLE}", f"${{{OUTPUTS_VARIABLE}}}"):
        if text == name or text.startswith(f"{name}/"):
            return text[len(name) + 1 :]
    return None


def parse_path(text: str) -> str:
    """Parse a path written by `display_path` or a model. Raises ToolError if no file can have that
    name."""
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:
        raw = b"\0"
    if len(raw) > 2 and raw.startswith(b"$'") and raw.endswith(b"'"):
        raw = _ESCAPE.sub(_unescape, raw[2:-1])
    else:
        raw = os.path.expanduser(raw)  # noqa: PTH111 - Path's raises where there is no home
    if not raw or b"\0" in raw:
        raise ToolError(f"{text!a} can't be the name of a file.", error_id="bad_path")
    return os.fsdecode(raw)


def _unescape(match: re.Match[bytes]) -> bytes:
    byte, short, long, octal, character = match.groups()
    if byte or octal:
        return bytes([int(byte, 16) if byte else int(octal, 8) & 255])
    if short or long:
        code = int(short or long, 16)
        return chr(code).encode("utf-8", "surrogatepass") if code <= 0x10FFFF else b"\0"
    return bytes([_LETTERS.get(character[0], character[0])])


def size_text(size: int) -> str:
    if size < 1000:
        return f"{size} bytes"
    for unit, factor in (("GB", 1e9), ("MB", 1e6)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size / 1e3:.1f} kB"


def is_generated(path: str) -> bool:
    return not GENERATED.isdisjoint(path.split("/"))
