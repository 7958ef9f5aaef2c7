"""What .editorconfig and .gitattributes say of a file's form: charset, line endings, last newline.

https://spec.editorconfig.org and https://git-scm.com/docs/gitattributes. The first is meant for
whatever writes files, so it counts before the second, which is about what git checks out.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import NamedTuple

from agentcli.workspace.encodings import form_named
from agentcli.workspace.ignore import as_git_sees, path_pattern
from agentcli.workspace.text import TextFile, UnreadableText, nothing_against, read_bounded
from agentcli.workspace.wildcards import compile_wildcards, expand_braces

_EDITORCONFIG = ".editorconfig"
_GITATTRIBUTES = ".gitattributes"
_MAX_BYTES = 100_000
_LONGEST_PATTERN = 1_000
_SECTION = re.compile(r"\[(.+)\]\s*(?:[#;].*)?")
_SETTING = re.compile(r"([^=:]+?)\s*[=:]\s*(.*?)(?:\s+[#;].*)?")
_NUMBERS = re.compile(r"\{([+-]?\d{1,9})\.\.([+-]?\d{1,9})\}")
_LONGEST_RANGE = 1_000
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"\s*(.*)')
_NEWLINES = {"lf": "\n", "crlf": "\r\n", "cr": "\r"}
# git refuses a byte order mark there, and wants one in UTF-16.
_WITHOUT_MARK = re.compile(r"utf-?16(?:le|be)", re.IGNORECASE)
_NAMES = {"\r\n": "CRLF", "\r": "CR"}

Objection = Callable[[Path], str]


class Conventions(NamedTuple):
    """What holds for a file, each with the name of the file that says so. `charset` counts for
    existing files as well."""

    charset: tuple[str, str] = ("", "")
    newline: tuple[str, str] = ("", "")
    final_newline: bool = False

    def applied(self, text: str) -> tuple[TextFile, str, list[str]]:
        """Return the form of a new file, its text, and what differs from plain UTF-8."""
        notes = []
        newline, by = self.newline
        if newline in _NAMES:
            notes.append(f"{_NAMES[newline]} line endings, as {by} says")
        name, by = self.charset
        encoding, bom = form_named(name) or ("utf-8", b"")
        if by == _GITATTRIBUTES and _WITHOUT_MARK.fullmatch(name):
            bom = b""
        if encoding != "utf-8" or bom:
            notes.append(f"{encoding}{' with BOM' * bool(bom)}, as {by} says")
        if self.final_newline and text and not text.endswith("\n"):
            text += "\r\n" if "\r\n" in text else "\n"
        return TextFile("", encoding, bom, newline or None), text, notes


def conventions(path: Path, objection: Objection = nothing_against) -> Conventions:
    """Return what holds for the file at the resolved `path`, existing or not. `objection` says why
    a file may not be read."""
    editor = _editorconfig(path, objection)
    git = _gitattributes(path, objection)
    charset = editor.get("charset", ""), _EDITORCONFIG
    if not charset[0]:
        charset = git.get("working-tree-encoding", ""), _GITATTRIBUTES
    newline = _NEWLINES.get(editor.get("end_of_line", ""), ""), _EDITORCONFIG
    if not newline[0]:
        newline = _NEWLINES.get(git.get("eol", ""), ""), _GITATTRIBUTES
    return Conventions(charset, newline, editor.get("insert_final_newline") == "true")


def _lines(path: Path, objection: Objection) -> list[str]:
    """Return the lines of a file; none if it is missing or can't be read."""
    with contextlib.suppress(UnreadableText):
        found = read_bounded(path, _MAX_BYTES, None, objection)
        return found.text.split("\n") if found else []
    return []


# --- .editorconfig ------------------------------------------------------------------------------


def _editorconfig(path: Path, objection: Objection) -> dict[str, str]:
    """Return the settings, in lower case; those in the file's own folder count most."""
    found: list[dict[str, str]] = []
    for folder in path.parents:
        lines = _lines(folder / _EDITORCONFIG, objection)
        if not lines:
            continue
        is_root, settings = _sections(lines, path.relative_to(folder).as_posix())
        found.append(settings)
        if is_root:
            break
    merged = {key: value for settings in reversed(found) for key, value in settings.items()}
    return {key: value for key, value in merged.items() if value != "unset"}


def _sections(lines: list[str], path: str) -> tuple[bool, dict[str, str]]:
    """Return whether the file is the topmost, and the settings of its sections that match."""
    is_root, matches = False, None
    settings: dict[str, str] = {}
    for line in map(str.strip, lines):
        if not line or line[0] in "#;":
            continue
        if section := _SECTION.fullmatch(line):
            matches = _is_meant(section[1], path)
        elif setting := _SETTING.fullmatch(line):
            key, value = setting[1].lower(), setting[2].lower()
            if matches is None and key == "root":
                is_root = value == "true"
            elif matches:
                settings[key] = value
    return is_root, settings


def _is_meant(pattern: str, path: str) -> bool:
    if len(pattern) > _LONGEST_PATTERN:
        return False
    on_path = "/" in pattern
    subject = path if on_path else path.rpartition("/")[2]
    return any(
        compile_wildcards(option.removeprefix("/")).fullmatch(subject)
        for each in _numbers_expanded(pattern)
        for option in expand_braces(each)
    )


def _numbers_expanded(pattern: str) -> Iterator[str]:
    """Yield the pattern for each number of its ranges, such as `{1..3}`."""
    parts = _NUMBERS.split(pattern)
    ranges = [range(int(a), int(b) + 1) for a, b in zip(parts[1::3], parts[2::3], strict=True)]
    if not ranges or sum(map(len, ranges)) > _LONGEST_RANGE or len(ranges) > 2:
        yield pattern
        return
    for numbers in product(*ranges):
        filled = [
            text for pair in zip(parts[::3], map(str, numbers), strict=False) for text in pair
        ]
        yield "".join([*filled, parts[-1]])


# --- .gitattributes -----------------------------------------------------------------------------


def _gitattributes(path: Path, objection: Objection) -> dict[str, str]:
    """Return the attributes with a value that are set for a text file; of two lines the last
    counts, and that in a folder nearer to the file."""
    files: list[tuple[Path, Path]] = []
    for folder in path.parents:
        files.insert(0, (folder, folder / _GITATTRIBUTES))
        if (folder / ".git").exists():
            files.append((folder, folder / ".git/info/attributes"))
            break
    values: dict[str, str] = {}
    for folder, file in files:
        inner = path.relative_to(folder).as_posix()
        for line in _lines(file, objection):
            pattern, attributes = _split(line.strip())
            if attributes and _matches(pattern, inner):
                _apply(attributes, values)
    return {} if values.get("text") == "-" else values


def _split(line: str) -> tuple[str, list[str]]:
    if not line or line.startswith(("#", "[attr]")) or len(line) > _LONGEST_PATTERN:
        return "", []
    if quoted := _QUOTED.fullmatch(line):
        return re.sub(r"\\(.)", r"\1", quoted[1]), quoted[2].split()
    pattern, *attributes = line.split()
    return pattern, attributes


def _matches(pattern: str, path: str) -> bool:
    wanted, subject = path_pattern(as_git_sees(pattern)), as_git_sees(path)
    if wanted.folders_only:
        return False
    if not wanted.on_path:
        subject = subject.rpartition("/")[2]
    if wanted.name is not None:
        return subject == wanted.name
    return re.fullmatch(wanted.expression, subject, re.DOTALL) is not None


def _apply(attributes: list[str], values: dict[str, str]) -> None:
    for each in attributes:
        name, equals, value = each.partition("=")
        if name == "binary":
            values["text"] = "-"
        elif name[0] in "-!":
            values[name[1:]] = "-" if name[0] == "-" else ""
        else:
            values[name] = value if equals else "set"
