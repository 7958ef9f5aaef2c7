"""Walks a folder tree lazily, without what .gitignore and .ignore files exclude.

Patterns come with the repository, so none may take exponential time. pathspec 1.1 takes 5 s to
match a pattern of seven stars against a name of 60 letters; this takes 0.3 ms.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Container, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from agentcli.errors import ToolError
from agentcli.workspace.names import display_path
from agentcli.workspace.opening import open_within, opened_folder
from agentcli.workspace.text import os_errors_told
from agentcli.workspace.tracking import FileTracker

NEVER_SEARCHED = ".git"
_IGNORE_FILES = (".git/info/exclude", ".gitignore", ".ignore")
_MAX_IGNORE_BYTES = 100_000
_LONGEST_IGNORE_LINE = 4_096
_LONGEST_PATTERN = 1_000
_LONGEST_PATH = 4_096
"""The limit of Linux; deeper paths can't be named."""
_BLANKS_AT_END = re.compile(r"(?<![\\ ]) +$|(?<=\\ ) +$")


@dataclass(frozen=True, slots=True)
class WalkedEntry:
    """`path` is relative to the folder that is walked and uses `/`. A symlink is neither a folder
    nor a file."""

    path: str
    is_folder: bool
    is_file: bool


@dataclass(frozen=True, slots=True)
class Folder:
    """`path` is relative to the folder that is walked and ends with `/`, except for that folder
    itself, which is "". `entries` are all its entries, sorted by name."""

    path: str
    entries: list[os.DirEntry[str]]
    _place: str
    _rules: tuple[_Rules, ...]
    _unseen: Container[str]

    def leaves_out(self, name: str, is_folder: bool) -> bool:
        """Return whether an entry is ignored or must not be seen."""
        path = self._place + name
        return (
            name == NEVER_SEARCHED
            or _is_ignored(path, is_folder, self._rules)
            or path in self._unseen
        )


def walk(top: Path, unseen: Container[str] = ()) -> Iterator[WalkedEntry]:
    """Yield the files and folders below `top`, as `folders` finds them: first all entries of a
    folder by name, then those of its subfolders."""
    for folder in folders(top, unseen):
        for entry in folder.entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            if not folder.leaves_out(entry.name, is_folder):
                is_file = entry.is_file(follow_symlinks=False)
                yield WalkedEntry(folder.path + entry.name, is_folder, is_file)


def folders(top: Path, unseen: Container[str] = ()) -> Iterator[Folder]:
    """Yield the resolved folder `top` and the folders below it.

    Ignored folders, `.git` and the resolved paths in `unseen` are not entered; names with a leading
    dot are. Symlinks are not followed, even if one replaces a folder meanwhile. If `top` itself is
    ignored, the caller asked for it by name, and only ignore files below it count.
    """
    base = f"{top}/".replace("//", "/")
    waiting = [("", _rules_above(top))] if str(top) not in unseen else []
    while waiting:
        path, rules = waiting.pop()
        # A folder that can't be opened, vanished or became a symlink has nothing to show.
        with contextlib.suppress(OSError), opened_folder(top / path) as handle:
            with os.scandir(handle) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
            rules = _with_rules_of(handle, top / path, rules, {entry.name for entry in entries})
            folder = Folder(path, entries, base + path, rules, unseen)
            inner = [
                (f"{path}{entry.name}/", rules)
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not folder.leaves_out(entry.name, True)
            ]
            waiting += [each for each in reversed(inner) if len(each[0]) < _LONGEST_PATH]
            yield folder


# --- ignore files -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Line:
    pattern: re.Pattern[str]
    ignores: bool
    folders_only: bool
    on_path: bool


@dataclass(frozen=True, slots=True)
class _Rules:
    """The lines of one ignore file, last one first. `base` is the length of its folder's path."""

    base: int
    lines: tuple[_Line, ...]
    any_name: re.Pattern[str]
    any_path: re.Pattern[str]

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Return whether the file ignores `path`; None if it does not mention it."""
        inside = path[self.base :]
        name = inside.rsplit("/", 1)[-1]
        if not self.any_name.fullmatch(name) and not self.any_path.fullmatch(inside):
            return None
        for line in self.lines:
            if line.folders_only and not is_folder:
                continue
            if line.pattern.fullmatch(inside if line.on_path else name):
                return line.ignores
        return None


def _is_ignored(path: str, is_folder: bool, rules: tuple[_Rules, ...]) -> bool:
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def _rules_above(top: Path) -> tuple[_Rules, ...]:
    """Return the rules of the folders around `top`, from the root of its repository down."""
    above = [top, *top.parents]
    roots = (i for i, folder in enumerate(above) if (folder / ".git").exists())
    root = next(roots, len(above) - 1)
    rules: tuple[_Rules, ...] = ()
    for inner, folder in reversed(list(itertools.pairwise(above[: root + 1]))):
        with contextlib.suppress(OSError), opened_folder(folder) as handle:
            rules = _with_rules_of(handle, folder, rules, {".git", ".gitignore", ".ignore"})
        if _is_ignored(str(inner), True, rules):
            return ()
    return rules


def _with_rules_of(
    handle: int, folder: Path, rules: tuple[_Rules, ...], names: set[str]
) -> tuple[_Rules, ...]:
    for name in _IGNORE_FILES:
        if name.split("/", 1)[0] in names:
            # As for git, a file that is missing, unreadable, a symlink or not regular has no rules.
            with contextlib.suppress(OSError), open_within(handle, name) as file:
                data = file.read(_MAX_IGNORE_BYTES + 1)
                if len(data) <= _MAX_IGNORE_BYTES:
                    rules += (_parse(os.fsdecode(data), str(folder)),)
    return rules


def _parse(text: str, folder: str) -> _Rules:
    lines = [line for raw in reversed(text.split("\n")) if (line := _parse_line(raw))]

    def any_of(on_path: bool) -> re.Pattern[str]:
        wanted = {line.pattern.pattern for line in lines if line.on_path is on_path}
        return re.compile("|".join(f"(?:{pattern})" for pattern in sorted(wanted)) or "(?!)", re.S)

    return _Rules(len(folder.rstrip("/")) + 1, tuple(lines), any_of(False), any_of(True))


def _parse_line(raw: str) -> _Line | None:
    if len(raw) > _LONGEST_IGNORE_LINE:
        return None
    text = _BLANKS_AT_END.sub("", raw.rstrip("\r"))
    ignores = not text.startswith("!")
    text = text if ignores else text[1:]
    if not text.strip("/") or (ignores and text.startswith("#")):
        return None
    folders_only = text.endswith("/")
    text = text.rstrip("/") if folders_only else text
    on_path = "/" in text
    return _Line(compile_wildcards(text.removeprefix("/")), ignores, folders_only, on_path)


# --- wildcards ----------------------------------------------------------------------------------


def compile_wildcards(pattern: str) -> re.Pattern[str]:
    """Return a full-match expression for the wildcards of .gitignore: `*`, `?`, `[…]`, `**`.

    Each stretch between two stars matches at its first possible place without backtracking. That is
    never wrong here, and keeps a hostile pattern from taking exponential time.
    """
    stretches: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            stretches.append([])
        else:
            stretches[-1].append(_segment(part))
    first, *others = ["/".join(stretch) for stretch in stretches]
    if not others:
        return re.compile(first, re.S)
    *middle, last = others
    expression = f"{first}/" if first else ""
    expression += "".join(f"(?>(?:[^/]+/)*?{stretch}/)" for stretch in middle if stretch)
    return re.compile(expression + (f"(?:[^/]+/)*{last}" if last else ".+"), re.S)


def _segment(text: str) -> str:
    pieces = [""]
    for piece in re.findall(r"\*+|\\.|\[[!^]?\]?[^\]]{0,100}\]|.", text, re.S):
        if piece.startswith("*"):
            pieces.append("")
        else:
            pieces[-1] += _one_character(piece)
    first, *others = pieces
    if not others:
        return first
    *middle, last = others
    return first + "".join(f"(?>[^/]*?{piece})" for piece in middle) + f"[^/]*{last}"


def _one_character(piece: str) -> str:
    if piece == "?":
        return "[^/]"
    if len(piece) > 1 and piece.startswith("["):
        negated = piece[1] in "!^"
        inside = re.sub(r"([\[\\&~|])", r"\\\1", piece[2 if negated else 1 : -1])
        inside = "\\" + inside if inside[0] in "]^" else inside
        with contextlib.suppress(re.error):
            return re.compile(f"(?!/)[{'^' if negated else ''}{inside}]").pattern
    return re.escape(piece[1:] if len(piece) > 1 and piece[0] == "\\" else piece)


def expand_braces(pattern: str) -> list[str]:
    """Expand `a{b,c}` to `ab` and `ac`, at any depth; limited to about a thousand results."""
    ready: list[str] = []
    waiting = [pattern]
    while waiting and len(ready) + len(waiting) < 1000:
        text = waiting.pop()
        match = re.search(r"\{([^{}]*,[^{}]*)\}", text)
        if match is None:
            ready.append(text)
        else:
            before, after = text[: match.start()], text[match.end() :]
            waiting += [before + option + after for option in match[1].split(",")]
    return ready + waiting


class Glob:
    """A pattern for paths relative to where a search starts. Without `/` it matches names at any
    depth; a leading `!` matches all other paths."""

    def __init__(self, pattern: str) -> None:
        """Raises ToolError if the pattern is too long."""
        if len(pattern) > _LONGEST_PATTERN:
            raise ToolError(
                f"the pattern is longer than {_LONGEST_PATTERN:,} characters.",
                error_id="bad_pattern",
            )
        self._means_others = pattern.startswith("!")
        options = expand_braces(pattern.removeprefix("!").removeprefix("./"))
        self._names = [compile_wildcards(option) for option in options if "/" not in option]
        self._paths = [compile_wildcards(option.lstrip("/")) for option in options if "/" in option]

    def matches(self, path: str) -> bool:
        name = path.rsplit("/", 1)[-1]
        matches = any(pattern.fullmatch(name) for pattern in self._names) or any(
            pattern.fullmatch(path) for pattern in self._paths
        )
        return matches is not self._means_others


# --- finding what the model meant ---------------------------------------------------------------


def existing(files: FileTracker, text: str) -> tuple[Path, os.stat_result]:
    """Return the path that the model means by `text`, symlinks not yet followed, and its status.
    Raises ToolError if it may not be read or does not exist."""
    path = files.locate(text)
    files.require_readable(path)
    with os_errors_told(files.show(path)):
        try:
            return path, path.stat()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise _no_such_file(files, path) from error


def _no_such_file(files: FileTracker, path: Path) -> ToolError:
    """The error suggests files that may have been meant."""
    message = f"There is no {files.show(path)}"
    folder = next(parent for parent in path.parents if parent.is_dir())
    missing = path.relative_to(folder).parts[0]
    if folder != path.parent:
        message += f": no {display_path(missing)} in {files.show(folder)}"
    near: list[Path] = []
    # The suggestions are optional, and a folder that can't be listed has none.
    with contextlib.suppress(ToolError):
        here = [entry.name for entry in files.list_folder(folder)]
        near = [folder / name for name in get_close_matches(missing, here, n=3, cutoff=0.7)]
    top = files.workspace.resolve()
    elsewhere = (
        files.workspace / found.path
        for found in itertools.islice(walk(top, files.guard.unseen_below(top)), 20_000)
        if found.path.rpartition("/")[2] == path.name
    )
    near += [other for other in itertools.islice(elsewhere, 3) if other not in near]
    if near:
        message += f". Similar: {', '.join(map(files.show, near))}"
    return ToolError(message, error_id="file_not_found")
