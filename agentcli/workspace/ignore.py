"""Which paths `.gitignore`, `.ignore`, `info/exclude` and `core.excludesFile` exclude.

The answers are those of `git check-ignore --no-index`:
https://github.com/git/git/blob/v2.39.5/dir.c. `.ignore` is not git's, but that of ripgrep and other
searchers; within a folder it has the last word.
"""

from __future__ import annotations

import codecs
import contextlib
import functools
import itertools
import os
import re
import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from agentcli.system.programs import find_program, user_environ
from agentcli.workspace.opening import open_within, opened_folder
from agentcli.workspace.private import read_private
from agentcli.workspace.scope import named_place, pointed_place
from agentcli.workspace.wildcards import plain_length, translate

GIT = ".git"
_GIT_IGNORE = ".gitignore"
_IGNORE_FILES = (_GIT_IGNORE, ".ignore")
_LARGEST = 10_000_000
"""Bytes of an ignore file that count; git has no such limit, but compiling more takes minutes."""
_LONGEST_POINTER = 5_000
_ASKING_S = 2
_WANTED = r"^core\.(excludesfile|ignorecase)$"
_MISLEADING = ("GIT_DIR", "GIT_COMMON_DIR", "GIT_WORK_TREE", "GIT_CONFIG")


class PathPattern(NamedTuple):
    """A pattern of an ignore or attributes file. `name` is the only one that it matches, or None;
    then `expression` is for whole matches. Both are compared with the path below the file's folder
    if `on_path`, else with the last part, as `as_git_sees` returns it."""

    name: str | None
    expression: str
    on_path: bool
    folders_only: bool


def path_pattern(text: str) -> PathPattern:
    """Return the pattern of a line, given as one character per byte."""
    folders_only = text.endswith("/")
    text = text[:-1] if folders_only else text
    on_path = "/" in text
    text = text.removeprefix("/")
    plain = plain_length(text)
    if plain == len(text):
        return PathPattern(text, "", on_path, folders_only)
    # git compares the plain beginning of a path first, and matches only the rest: `a**/b` is `a`
    # and `**/b`. From commit 1940a02dc112 (October 2025) on, it no longer does.
    return PathPattern(None, translate(text, plain if on_path else 0), on_path, folders_only)


def as_git_sees(path: str) -> str:
    """Return a path with one character per byte."""
    return path if path.isascii() else os.fsencode(path).decode("latin-1")


class IgnoreFile:
    """The rules of one ignore file for the folder whose path is `base` characters long, with a
    slash at its end. The last rule that matches a path decides."""

    def __init__(self, data: bytes, base: int, *, of_git: bool, folds: bool = False) -> None:
        """`folds`: capital letters don't matter."""
        self.of_git = of_git
        self._base = base
        self.folds = folds
        self._ignores: list[bool] = []
        # By on_path: the numbers of the last rules for names; a slash ends those for folders only.
        self._plain: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self._wild: list[tuple[int, PathPattern]] = []
        self._tables: dict[tuple[bool, bool], _Table] = {}
        for line in data.removeprefix(codecs.BOM_UTF8).decode("latin-1").split("\n"):
            if line and not line.startswith("#"):
                self._add(_without_spaces_at_end(line.removesuffix("\r").partition("\0")[0]))

    def _add(self, text: str) -> None:
        number = len(self._ignores)
        pattern = path_pattern(text.removeprefix("!") if text.startswith("!") else text)
        if pattern.name is None:
            self._wild.append((number, pattern))
        else:
            name = self._folded(pattern.name) + "/" * pattern.folders_only
            self._plain[pattern.on_path][name] = number
        self._ignores.append(not text.startswith("!"))

    def _folded(self, text: str) -> str:
        return text.encode("latin-1").lower().decode("latin-1") if self.folds else text

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """Return whether the file ignores `path`; None if it does not mention it."""
        inside = self._folded(as_git_sees(path[self._base :]))
        name = inside.rsplit("/", 1)[-1]
        last = -1
        for on_path, subject in ((False, name), (True, inside)):
            plain = self._plain[on_path]
            if plain:
                last = max(last, plain.get(subject, -1))
                last = max(last, plain.get(f"{subject}/", -1)) if is_folder else last
            if self._wild:
                last = max(last, self._table(on_path, is_folder).last_match(subject))
        return self._ignores[last] if last >= 0 else None

    def _table(self, on_path: bool, is_folder: bool) -> _Table:
        key = on_path, is_folder
        table = self._tables.get(key)
        if table is None:
            rules = [
                (number, pattern.expression)
                for number, pattern in reversed(self._wild)
                if pattern.on_path is on_path and (is_folder or not pattern.folders_only)
            ]
            table = self._tables[key] = _Table(rules, self.folds)
        return table


class _Table:
    """The expressions of many rules as one. An empty group after each tells which one matched; the
    engine skips alternatives by their first letter."""

    def __init__(self, rules: list[tuple[int, str]], folds: bool) -> None:
        self._numbers = [number for number, _ in rules]
        flags = re.S | re.ASCII | (re.I if folds else 0)
        joined = "|".join(f"{expression}()" for _, expression in rules)
        self._pattern = re.compile(joined, flags) if rules else None

    def last_match(self, subject: str) -> int:
        found = self._pattern.fullmatch(subject) if self._pattern else None
        return self._numbers[found.lastindex - 1] if found and found.lastindex else -1


def _without_spaces_at_end(text: str) -> str:
    """A backslash keeps the space after it."""
    kept = text.rstrip(" ")
    backslashes = len(kept) - len(kept.rstrip("\\"))
    return kept + " " if backslashes % 2 and kept != text else kept


# --- which files count ----------------------------------------------------------------------------

Rules = tuple[IgnoreFile, ...]
"""The ignore files that count in a folder; later ones take precedence."""


def is_ignored(path: str, is_folder: bool, rules: Rules) -> bool:
    """Return whether the absolute `path`, in a folder that is not ignored, is ignored."""
    for rule in reversed(rules):
        verdict = rule.verdict(path, is_folder)
        if verdict is not None:
            return verdict
    return False


def rules_above(top: Path) -> Rules:
    """Return the rules of the folders around `top`, from the root of its repository down; none if
    `top` itself is ignored."""
    above = [top, *top.parents]
    roots = (i for i, folder in enumerate(above) if os.path.lexists(folder / GIT))
    root = next(roots, len(above) - 1)
    rules: Rules = ()
    for inner, folder in reversed(list(itertools.pairwise(above[: root + 1]))):
        with contextlib.suppress(OSError), opened_folder(folder) as handle:
            rules = with_rules_of(handle, folder, rules, (GIT, *_IGNORE_FILES))
        if is_ignored(str(inner), True, rules):
            return ()
    return rules


def with_rules_of(handle: int, folder: Path, rules: Rules, names: Collection[str]) -> Rules:
    """Return `rules` and those of the open `folder` with entries `names`. A repository's rules end
    where another one begins."""
    base = len(str(folder).rstrip("/")) + 1
    folds = any(rule.folds for rule in rules if rule.of_git)
    if GIT in names and os.path.lexists(folder / GIT):
        files, folds = _of_repository(folder)
        rules = tuple(rule for rule in rules if not rule.of_git)
        for file in files:
            if data := read_private(file, _LARGEST, follow=True):
                rules += (IgnoreFile(data, base, of_git=True, folds=folds),)
    for name in _IGNORE_FILES:
        if name in names:
            # As for git, a file that is missing, unreadable, a symlink or not regular has no rules.
            with contextlib.suppress(OSError), open_within(handle, name) as opened:
                data, of_git = opened.read(_LARGEST), name == _GIT_IGNORE
                rules += (IgnoreFile(data, base, of_git=of_git, folds=folds and of_git),)
    return rules


def _of_repository(top: Path) -> tuple[list[Path], bool]:
    """Return the ignore files of a working tree outside its folders, the weaker first, and whether
    capital letters don't matter in it."""
    git = top / GIT
    if pointer := read_private(git, _LONGEST_POINTER):
        git = top / (pointed_place(pointer) or GIT)
    shared = named_place(read_private(git / "commondir", _LONGEST_POINTER) or b"")
    common = git / shared
    environ = user_environ()
    home = environ.get("HOME", "/")
    of_user = Path(environ.get("XDG_CONFIG_HOME") or f"{home}/.config", "git")
    configs = (Path(home, ".gitconfig"), of_user / "config", common / "config")
    stamps = tuple(map(_stamp, (*configs, git / "config.worktree")))
    excludes, folds = _settings(top, stamps) if any(stamps) else (None, False)
    files = [of_user / "ignore"] if excludes is None else [top / excludes] if excludes else []
    return [*files, common / "info/exclude"], folds


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_ino, info.st_size, info.st_mtime_ns


@functools.lru_cache(maxsize=256)
def _settings(top: Path, stamps: tuple[object, ...]) -> tuple[str | None, bool]:
    """Return `core.excludesFile` and `core.ignoreCase` of a working tree. `stamps` are those of the
    files that they are mostly in. Reading settings runs nothing of the repository."""
    excludes, folds = None, False
    program = find_program("git")
    environ = {k: v for k, v in user_environ().items() if k not in _MISLEADING}
    command = [program or "", "-C", str(top), "config", "-z", "--get-regexp", _WANTED]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        asked = subprocess.run(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_ASKING_S,
        )
        for item in os.fsdecode(asked.stdout).split("\0"):
            key, written, value = item.partition("\n")
            if key == "core.excludesfile":
                excludes = os.path.expanduser(value)  # noqa: PTH111 - it may be no path
            elif key:
                folds = not written or value.lower() in ("true", "yes", "on", "1")
    return excludes, folds
