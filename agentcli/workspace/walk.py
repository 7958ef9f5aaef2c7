"""Walks a folder tree lazily, without what ignore files exclude; suggests what may be meant."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Container, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from unicodedata import normalize

from agentcli.errors import ToolError
from agentcli.workspace.ignore import GIT, Rules, is_ignored, rules_above, with_rules_of
from agentcli.workspace.names import display_path, escaped_path
from agentcli.workspace.opening import opened_folder
from agentcli.workspace.text import os_errors_told
from agentcli.workspace.tracking import FileTracker

_LONGEST_PATH = 4_096
"""The limit of Linux; deeper paths can't be named."""


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
    _rules: Rules
    _unseen: Container[str]

    def leaves_out(self, name: str, is_folder: bool) -> bool:
        """Return whether an entry is ignored or must not be seen."""
        path = self._place + name
        return name == GIT or is_ignored(path, is_folder, self._rules) or path in self._unseen


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
    waiting = [("", rules_above(top))] if str(top) not in unseen else []
    while waiting:
        path, rules = waiting.pop()
        # A folder that can't be opened, vanished or became a symlink has nothing to show.
        with contextlib.suppress(OSError), opened_folder(top / path) as handle:
            with os.scandir(handle) as scan:
                entries = sorted(scan, key=lambda entry: entry.name)
            rules = with_rules_of(handle, top / path, rules, {entry.name for entry in entries})
            folder = Folder(path, entries, base + path, rules, unseen)
            inner = [
                (f"{path}{entry.name}/", rules)
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not folder.leaves_out(entry.name, True)
            ]
            waiting += [each for each in reversed(inner) if len(each[0]) < _LONGEST_PATH]
            yield folder


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
        form = normalize("NFC", missing)
        if same := [name for name in here if normalize("NFC", name) == form]:
            # Shown as they are, the two would look alike.
            shown = escaped_path(files.show(folder / same[0] / path.relative_to(folder / missing)))
            return ToolError(
                f"{message}. Its letters are stored in another Unicode form: {shown}",
                error_id="file_not_found",
            )
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
