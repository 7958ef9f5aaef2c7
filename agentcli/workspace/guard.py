"""Decides what may be read and written: by the access scope and the user's rules, and never devices
or processes."""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections import deque
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Lock

from agentcli.errors import ToolError
from agentcli.workspace.access_scope import AccessScope
from agentcli.workspace.names import display_path
from agentcli.workspace.reading_rules import ReadingRules

_OF_THE_SYSTEM = re.compile(r"/dev(?:/.*)?|/proc/(?:\d+|self|thread-self|kcore|kmsg)(?:/.*)?", re.S)
"""Devices, and the memory, environment and view of processes; matches lexical and resolved
paths."""
_NEVER_SEARCHED = (Path("/dev"), Path("/proc"))
_LARGEST_SCAN = 10_000
"""How many hidden files are compared with a file that has several hard links."""
CLOCK_SLACK_NS = 1_000_000_000
"""File systems stamp changes with a clock that may be this far behind ours."""


class Guard:
    """Judges resolved paths. Without a scope and `rules`, only devices and processes are off
    limits."""

    def __init__(self, scope: AccessScope | None) -> None:
        self.rules: Callable[[], ReadingRules] = ReadingRules
        self._scope = scope
        self._permitted: frozenset[Path] = frozenset()
        self._hidden_files: frozenset[tuple[int, int]] = frozenset()
        self._scanned_ns = 0
        self._scanning = Lock()

    @contextlib.contextmanager
    def permitting(self, target: Path) -> Iterator[None]:
        """Allow this one resolved path to be read and written although the scope forbids it."""
        before, self._permitted = self._permitted, self._permitted | {target}
        try:
            yield
        finally:
            self._permitted = before

    def may_read(self, target: Path) -> bool:
        return self._is_in_reach(target) and not self._objection(target)

    def _is_in_reach(self, target: Path) -> bool:
        if _OF_THE_SYSTEM.fullmatch(str(target)):
            return False
        scope = self._scope
        return scope is None or target in self._permitted or scope.may_read(target)

    def _objection(self, target: Path) -> str:
        """Return why the rules forbid to read a file that exists; a new one may be written."""
        why = self.rules().objection(str(target))
        return why if why and os.path.lexists(target) else ""

    def why_unreadable(self, target: Path) -> str:
        """Return why a resolved path may not be read unasked, in words that follow its name; "" if
        it may be, or does not exist."""
        if not self._is_in_reach(target):
            return "is hidden from the session"
        with contextlib.suppress(OSError):
            if self.is_hidden(target.stat()):
                return "is a hard link to a file that may not be read"
            why = self.rules().objection(str(target), unasked=True)
            return f"may not be read: {why}" if why else ""
        return ""

    def unseen_below(self, top: Path, tool: str, *, unasked: bool) -> Container[str]:
        """Return what a walk by `tool` below the resolved folder `top` must not see: hidden paths
        and what rules deny. With `unasked`, also what must be asked about, as nobody is asked about
        each file of a search, unless that is about all of `top`, which the user has then been
        asked about. A walk that avoids these need not check each file."""
        hidden = (*_NEVER_SEARCHED, *(self._scope.hidden if self._scope else ()))
        below = frozenset(str(path) for path in hidden if path.is_relative_to(top))
        rules = self.rules()
        if not rules.may_object_below(top):
            return below
        unasked = unasked and not rules.objection(str(top), tool, unasked=True)
        return _Unseen(below, rules, tool, unasked)

    def judge_reading(self, target: Path) -> None:
        """Raise ToolError if the resolved `target` is hidden, belongs to the system or is denied
        by a rule."""
        self.judge_name(target)
        if not self._is_in_reach(target):
            if self._scope is not None and self._scope.is_elsewhere(target):
                raise ToolError(
                    f"{display_path(target)} may not be read: only the workspace and what is "
                    "installed may be, as the setting sandbox.read says.",
                    error_id="hidden_path",
                )
            raise ToolError(
                f"{display_path(target)} may not be read: keys and passwords are kept there, or "
                "agent's own files. Go on without it, or ask the user for what you need of it.",
                error_id="hidden_path",
            )
        if why := self._objection(target):
            raise ToolError(
                f"{display_path(target)} may not be read: {why}. Go on without it.",
                error_id="hidden_path",
            )

    def judge_name(self, path: Path) -> None:
        """Raise ToolError if a path names a device or a process, whatever it leads to."""
        if _OF_THE_SYSTEM.fullmatch(os.path.normpath(path)):
            raise ToolError(
                f"{display_path(path)} is a device or process file, which the file tools can't "
                "open. Use a command if that is allowed.",
                error_id="not_a_file",
            )

    def judge_writing(self, target: Path) -> None:
        """Raise ToolError if `target` may not be written."""
        self.judge_name(target)
        scope = self._scope
        if scope is None or scope.may_write(target):
            return
        if target in self._permitted and not any(map(target.is_relative_to, scope.agent_files)):
            return
        if scope.is_protected(target):
            raise ToolError(
                f"{display_path(target)} may not be written: git or agent decides from it what "
                "to run. Tell the user what to change in it.",
                error_id="outside_workspace",
            )
        folders = ", ".join(map(display_path, scope.writable))
        raise ToolError(
            f"{display_path(target)} is outside the folders that may be written: {folders}.",
            error_id="outside_workspace",
        )

    def judge_inode(self, info: os.stat_result, shown: str) -> None:
        """Raise ToolError if the file is a hard link to a hidden file."""
        if self.is_hidden(info):
            raise ToolError(
                f"{shown} is a hard link to a file that may not be read.", error_id="hidden_path"
            )

    def is_hidden(self, info: os.stat_result) -> bool:
        """Return whether this is a hidden file, whatever name it was reached by."""
        if info.st_nlink < 2 or self._scope is None or not self._scope.hidden:
            return False
        # Read-only tools run concurrently.
        with self._scanning:
            # A link made since the last scan has changed the file's ctime.
            if info.st_ctime_ns >= self._scanned_ns - CLOCK_SLACK_NS:
                self._scanned_ns = time.time_ns()
                self._hidden_files = frozenset(_linked_files(self._scope.hidden))
        return (info.st_dev, info.st_ino) in self._hidden_files


@dataclass(frozen=True, slots=True)
class _Unseen:
    """Paths that a search does not see: `hidden` ones, and those that the rules keep from it."""

    hidden: frozenset[str]
    rules: ReadingRules
    tool: str
    unasked: bool

    def __contains__(self, path: object) -> bool:
        if path in self.hidden:
            return True
        return bool(self.rules.objection(str(path), self.tool, unasked=self.unasked))


def _linked_files(hidden: tuple[Path, ...]) -> Iterator[tuple[int, int]]:
    """Yield device and inode of the hidden files that have several names, within the scan limit.
    Goes breadth-first, so that one place with many files can't use up the limit for all others."""
    left = _LARGEST_SCAN
    waiting = deque(hidden)
    while waiting and left > 0:
        path = waiting.popleft()
        # If it is missing or not accessible to us, we could not have read it either.
        with contextlib.suppress(OSError):
            info = path.lstat()
            left -= 1
            if stat.S_ISDIR(info.st_mode):
                with os.scandir(path) as entries:
                    waiting += [Path(entry.path) for entry in islice(entries, left)]
            elif stat.S_ISREG(info.st_mode) and info.st_nlink > 1:
                yield info.st_dev, info.st_ino
