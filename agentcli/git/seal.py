"""Remembers what a git folder held before commands ran, and keeps it that way.

Everything that git's daily work does not change is sealed. A folder that commands made themselves
held nothing before, so there we only watch the files that git would act on at once.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from agentcli.git.config_files import adds_only_harmless, parse
from agentcli.git.control_files import ControlFiles, Infos, TooManyEntries
from agentcli.git.letting_in import let_in
from agentcli.git.quarantine import (
    FileRecord,
    Identity,
    Quarantine,
    identity,
    record_file,
)
from agentcli.git.repositories import is_worktree_folder
from agentcli.workspace.git_layout import (
    DATA_FOLDERS,
    GIT,
    INFO,
    named_place,
    real_place,
)
from agentcli.workspace.opening import opened_below, opened_folder

_ANCHOR_FLAGS = getattr(os, "O_PATH", 0) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SETTINGS = ("config", "config.worktree")
_ITS_OWN = (*DATA_FOLDERS, "HEAD", "index")
_BY_TEMPLATE = ("description", "info/exclude", "hooks", "branches")
"""What `git init` adds if it is missing, and what has no power by itself."""
_WRITING_S, _PAUSE_S = 0.05, 0.001


@dataclass(frozen=True)
class Finding:
    """`path` was changed or made; `done` says what was done about it, `kept` where it is now."""

    path: Path
    done: str
    why: str
    kept: Path | None = None


@dataclass(frozen=True)
class _Look:
    """One look at a sealed folder: its open `handle`, what was `found` there, and the `findings`
    made of it."""

    handle: int
    found: Infos
    quarantine: Quarantine
    findings: list[Finding]


class Seal:
    """The seal on one folder: a git folder, or any folder if `names` lists the sealed entries.

    `mounted` maps places in the folder that the sandbox closes to commands: to the identity of the
    file that must still be there, or to None if the name itself is closed. `made_by_commands`:
    commands made the folder, so nothing in it is sealed.
    """

    def __init__(
        self,
        path: Path,
        *,
        names: frozenset[str] | None = None,
        mounted: Mapping[str, Identity | None] | None = None,
        made_by_commands: bool = False,
    ) -> None:
        self.path = path
        self.names = names
        self.mounted = dict(mounted or {})
        self.made_by_commands = made_by_commands
        self._is_worktree = names is None and is_worktree_folder(path)
        self.records: dict[str, FileRecord] = {}
        self._first: dict[str, bytes] = {}
        """Original content of the settings that have changed since they were sealed, by place."""
        self._controls = ControlFiles(names, is_worktree=self._is_worktree)
        self.changed = False
        """Whether the last check found anything that differs from the records."""
        self._anchor: int | None = None
        """A descriptor that holds the folder, wherever it is moved to."""
        self._anchored = (0, 0)
        self._given_up: set[str] = set()
        """Places that could not be restored, which is reported once."""

    @property
    def folders(self) -> set[str]:
        """The places of the git folders within this one."""
        return self._controls.folders

    def take(self) -> None:
        """Seal what is there now. What can't be read now is sealed as it is first seen."""
        self.records = {}
        self._first = {}
        if self._anchor is None and self.path.name == GIT and self.names is None:
            with contextlib.suppress(OSError):
                self._anchor = os.open(self.path, _ANCHOR_FLAGS)
                self._anchored = identity(os.fstat(self._anchor))
        with contextlib.suppress(OSError, TooManyEntries), self._opened() as handle:
            for place, info in self._controls.found(handle).items():
                with contextlib.suppress(OSError):
                    self.records[place] = self._record(handle, place, info)

    def check(self, quarantine: Quarantine) -> list[Finding]:
        """Restore what is sealed, and return what was found. Raises TooManyEntries."""
        findings: list[Finding] = []
        self.changed = False
        try:
            with self._opened() as handle:
                look = _Look(handle, self._controls.found(handle), quarantine, findings)
                for place in sorted(look.found):
                    self._judge(look, place)
                for place in sorted(self.records.keys() - look.found.keys()):
                    self._missing(look, place)
        except OSError:
            self._controls.folders = set()
            if self._is_worktree and not os.path.lexists(self.path):
                # git removed the worktree; another one of the same name would be a new one.
                self.records = {}
            findings += self._brought_back(quarantine)
        return findings

    def let_in(self, folder: Identity, name: str) -> tuple[str, ...] | None:
        """Let a command that renames the lock file of the settings `name` to it, in a folder of
        this identity, have its way; return the names of settings that forbid it. None if that is
        not this folder, or the sandbox does not protect the file. Raises OSError."""
        if self.names is not None or name not in self.mounted:
            return None
        with self._opened() as handle:
            is_covered = self.mounted[name] == identity(_stat(handle, name))
            if identity(os.fstat(handle)) != folder or not is_covered:
                return None
            refused = let_in(handle, name, self._first_text(name, self.records.get(name)))
            self.records[name] = self._record(handle, name, _stat(handle, name))
        return refused

    def close(self) -> None:
        if self._anchor is not None:
            os.close(self._anchor)
            self._anchor = None

    def adopt(self) -> list[Path]:
        """Seal what is there now of what programs install: hooks and settings. Return the paths
        among them that have changed."""
        before = self.records
        self.take()
        now = self.records
        changed = [
            place
            for place in sorted(before.keys() | now.keys())
            if _differs(before.get(place), now.get(place))
        ]
        adopted = []
        for place in changed:
            if self._is_installed(place):
                adopted.append(self.path / place)
            elif place in before:
                now[place] = before[place]
            else:
                # Another command may have used the moment; `check` will judge this as usual.
                del now[place]
        return adopted

    def _is_installed(self, place: str) -> bool:
        if self.names is not None:
            return place != GIT
        return place.partition("/")[0] in (*SETTINGS, *_BY_TEMPLATE, INFO)

    def _brought_back(self, quarantine: Quarantine) -> Iterator[Finding]:
        """Remove anything that took the place of this folder and is not one, and move the folder
        back if it was moved away."""
        with contextlib.suppress(OSError), opened_folder(self.path.parent, forced=True) as above:
            if (info := _stat_below(above, self.path.name)) is not None:
                if stat.S_ISDIR(info.st_mode):
                    return
                kept = quarantine.take(above, self.path.name)
                yield Finding(self.path, "set aside", why(GIT), kept)
            if self._anchor is not None and not self.mounted:
                moved = os.readlink(f"/proc/self/fd/{self._anchor}")  # noqa: PTH115
                if identity(os.lstat(moved)) == identity(os.fstat(self._anchor)):
                    os.rename(moved, self.path.name, dst_dir_fd=above)
                    yield Finding(self.path, "moved back", why(GIT))

    # --- reading the folder ---------------------------------------------------------------------

    def _opened(self) -> AbstractContextManager[int]:
        # If the folder is still in its place, the path need not be walked.
        if self._anchor is not None and identity(self.path.stat()) == self._anchored:
            return opened_below(self._anchor, "", forced=True)
        return opened_folder(self.path, forced=True)

    def _record(self, handle: int, place: str, info: os.stat_result) -> FileRecord:
        with _folder_of(handle, place) as (folder, name):
            return record_file(folder, name, info)

    def _written(self, handle: int, place: str, info: os.stat_result) -> FileRecord:
        """Return the record of what is at `place`. A pointer to a git folder, which git empties
        before it writes it anew, has a moment for that."""
        deadline = time.monotonic() + _WRITING_S
        while True:
            now = self._record(handle, place, info)
            is_emptied = now.data == b"" and PurePosixPath(place).name == GIT
            if not is_emptied or time.monotonic() > deadline:
                return now
            time.sleep(_PAUSE_S)
            info = _stat_below(handle, place) or info

    # --- judging and restoring ------------------------------------------------------------------

    def _judge(self, look: _Look, place: str) -> None:
        info, was = look.found[place], self.records.get(place)
        if was is not None and was.is_still(info):
            return
        self.changed = not self.made_by_commands
        if any(place.startswith(f"{f.path.relative_to(self.path)}/") for f in look.findings):
            return
        with contextlib.suppress(FileNotFoundError):
            if self.made_by_commands and not (self._is_worktree and place == "commondir"):
                # Whatever else commands put here is inspected at the end of the turn.
                if place == "commondir" or place.partition("/")[0] in _ITS_OWN:
                    self._put_right(look, place, was, is_there=True)
                return
            # What is judged is what is recorded: a second reading may find something else.
            now = self._written(look.handle, place, info)
            if not self._is_accepted(look, place, now, was):
                self._put_right(look, place, was, is_there=True)
            elif not self.made_by_commands:
                self.records[place] = now

    def _missing(self, look: _Look, place: str) -> None:
        if place in self.mounted or place in self._given_up or place == GIT:
            # Only someone outside can have removed a mount. Whatever replaces it is compared.
            return
        if self._is_worktree or self._is_held(look, place):
            # A file vanishes from a worktree's folder when the worktree is being removed.
            del self.records[place]
            return
        self._put_right(look, place, self.records[place], is_there=False)

    def _put_right(
        self, look: _Look, place: str, was: FileRecord | None, *, is_there: bool
    ) -> None:
        """Take away what is at `place`, if anything is, and put back what `was` there."""
        done, kept = "set aside", None
        try:
            with _folder_of(look.handle, place) as (folder, name):
                if is_there:
                    kept = look.quarantine.take(folder, name)
                if was is not None:
                    look.quarantine.put(folder, name, was)
                    done = "put back as it was" if is_there else "put back"
                    now = record_file(folder, name, _stat(folder, name))
                    # Whoever has changed it again by now has not changed what belongs there.
                    self.records[place] = was if _differs(now, was) else now
        except OSError as error:
            if is_there and isinstance(error, FileNotFoundError):
                return
            verb = "put right" if is_there else "put back"
            done = f"could not be {verb}: {error.strerror or error}"
            self._given_up.add(place)
        look.findings.append(Finding(self.path / place, done, why(place), kept))

    def _is_held(self, look: _Look, place: str) -> bool:
        """Return whether commands can't have changed `place`, because it or a folder around it is
        mounted read-only for them and the mount still covers it."""
        for top in map(str, (PurePosixPath(place), *PurePosixPath(place).parents)):
            if top in self.mounted:
                wanted = self.mounted[top]
                info = look.found.get(top) or _stat_below(look.handle, top)
                return wanted is None or (info is not None and identity(info) == wanted)
        return False

    def _is_accepted(
        self, look: _Look, place: str, now: FileRecord, was: FileRecord | None
    ) -> bool:
        if self._is_held(look, place):
            return True
        if self._is_worktree and place == "commondir":
            return self._leads_home(now)
        if was is not None and was.kind != now.kind:
            return False
        if stat.S_ISDIR(now.mode):
            return was is not None or place in _BY_TEMPLATE
        if was is not None and now.data is not None and now.data == was.data:
            return not (now.mode & ~was.mode & 0o111)
        if not stat.S_ISREG(now.mode):
            return False
        if place in SETTINGS and self.names is None:
            return self._adds_only_harmless(place, was, now)
        return was is None and place in _BY_TEMPLATE

    def _adds_only_harmless(self, place: str, was: FileRecord | None, now: FileRecord) -> bool:
        old = parse(self._first_text(place, was))
        new = parse(now.data) if now.data is not None else None
        return old is not None and new is not None and adds_only_harmless(old, new)

    def _first_text(self, place: str, was: FileRecord | None) -> bytes:
        """Return the original content, to compare with: what was removed must not come back as
        something else."""
        return self._first.setdefault(place, (was.data or b"") if was is not None else b"")

    def _leads_home(self, now: FileRecord) -> bool:
        """Return whether the file `commondir` of a worktree names its own repository."""
        if not stat.S_ISREG(now.mode) or now.data is None:
            return False
        # git creates it empty, and stops with an error for as long as it is empty.
        return not now.data or (
            real_place(self.path, named_place(now.data)) == self.path.parent.parent
        )


def why(place: str) -> str:
    name = place.rpartition("/")[2]
    if place.startswith("hooks") or "/hooks/" in f"/{place}":
        return "git would run it"
    if name in ("commondir", "gitdir", ".git"):
        return "git would take settings and hooks from elsewhere"
    if name in SETTINGS:
        return "git would run what it names"
    if name in ("index", "MERGE_RR"):
        return "git would write or look outside of the working tree, or into a git folder"
    if name == "git-rebase-todo":
        return "commands added them"
    return "git itself makes no such file, but may trust it"


def _differs(one: FileRecord | None, other: FileRecord | None) -> bool:
    return one is None or other is None or (one.mode, one.data) != (other.mode, other.data)


@contextlib.contextmanager
def _folder_of(handle: int, place: str) -> Iterator[tuple[int, str]]:
    above, _, name = place.rpartition("/")
    with opened_below(handle, above, forced=True) as folder:
        yield folder, name


def _stat(folder: int, name: str) -> os.stat_result:
    return os.stat(name, dir_fd=folder, follow_symlinks=False)


def _stat_below(handle: int, place: str) -> os.stat_result | None:
    try:
        with _folder_of(handle, place) as (folder, name):
            return _stat(folder, name)
    except OSError:
        return None
