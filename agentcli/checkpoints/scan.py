"""The stat facts of every path of a workspace, as one short record each.

Two scans of an untouched tree are equal byte by byte. Python reads the first folders; where there
are many more, several `find` processes read the rest in parallel.
"""

from __future__ import annotations

import os
import stat
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agentcli.checkpoints.objects import CheckpointError, Git, has_git
from agentcli.checkpoints.trees import with_parents
from agentcli.workspace.names import GENERATED

MOST_FILES = 300_000
"""With more, the scan before each step would be felt, and it is hardly a single project."""
REPOSITORY = b".git"
REPOSITORY_OBJECTS = b"/.git/objects"
UNCERTAIN_NS = 20_000_000
"""Clocks of file systems tick every 1 to 10 ms: a file that changed less than this before it was
looked at can change again without a trace in its stat facts."""
_WHOLE_SECONDS_NS = 2_000_000_000
"""The same for file systems that store times in units of one or two seconds."""
_ALONE = 1_500
"""The number of entries Python reads in the time that two `find` processes need to start."""
_MOST_FINDS = 4
_FINDS = ("/usr/bin/find", "/bin/find")
_FILE_FORMAT = "%y %m %s %T@ %C@ %i %p\\0"
_FOLDER_FORMAT = "%y %m %p\\0"
_CHUNK = 1 << 20
_LETTERS = {
    stat.S_IFREG: b"f",
    stat.S_IFDIR: b"d",
    stat.S_IFLNK: b"l",
    stat.S_IFIFO: b"p",
    stat.S_IFSOCK: b"s",
    stat.S_IFCHR: b"c",
    stat.S_IFBLK: b"b",
}


class TooManyFiles(CheckpointError):
    def __init__(self, workspace: Path) -> None:
        super().__init__(
            f"{workspace} holds more than {MOST_FILES:,} files, too many for checkpoints",
            hint="to have checkpoints, start in the folder of one project",
        )


class FileFacts(NamedTuple):
    """`kind` is f, d or l; anything else is special and never opened. Times are as `find` prints
    them, and empty for folders, since whatever changes in a folder has its own record."""

    kind: bytes
    mode: int
    size: int
    modified: bytes
    changed: bytes
    inode: int
    path: bytes

    @property
    def record(self) -> bytes:
        """The record of anything but a folder."""
        kind, mode, size, modified, changed, inode, path = self
        return b"%s %o %d %s %s %d ./%s" % (kind, mode, size, modified, changed, inode, path)

    def is_uncertain(self, seen_ns: int) -> bool:
        """Whether content read after `seen_ns` may differ from what these facts stand for."""
        seconds, _, decimals = self.changed.partition(b".")
        nanoseconds = int(decimals[:9].ljust(9, b"0"))
        window = UNCERTAIN_NS if nanoseconds else _WHOLE_SECONDS_NS
        return int(seconds) * 1_000_000_000 + nanoseconds > seen_ns - window


@dataclass
class Scan:
    """`raw` has the records, each ended by a NUL. The contents of `unreadable` folders are
    missing."""

    started_ns: int
    raw: bytes
    unreadable: list[bytes] = field(default_factory=list)


def parse(record: bytes) -> FileFacts:
    if record.startswith(b"d "):
        kind, mode, path = record.split(b" ", 2)
        return FileFacts(kind, int(mode, 8), 0, b"", b"", 0, path[2:])
    kind, mode, size, modified, changed, inode, path = record.split(b" ", 6)
    return FileFacts(kind, int(mode, 8), int(size), modified, changed, int(inode), path[2:])


def record_of(path: bytes, facts: os.stat_result) -> bytes:
    """Return a path's record as `find` prints it; `path` is relative to the workspace."""
    kind = _LETTERS.get(stat.S_IFMT(facts.st_mode), b"U")
    mode = stat.S_IMODE(facts.st_mode)
    if kind == b"d":
        return b"d %o ./%s" % (mode, path)
    modified, changed = time_text(facts.st_mtime_ns), time_text(facts.st_ctime_ns)
    return FileFacts(kind, mode, facts.st_size, modified, changed, facts.st_ino, path).record


def time_text(ns: int) -> bytes:
    """Return seconds with ten decimals, as `find` prints them."""
    return b"%d.%09d0" % divmod(ns, 1_000_000_000)


def scan(workspace: Path, pruned: Collection[bytes], above: bytes = b"") -> Scan:
    """Scan everything but the `pruned` folders and the object files of repositories. `above` is put
    before the paths: the path of the scanned folder itself. A missing workspace counts as empty.

    Raises TooManyFiles, and CheckpointError when the workspace itself can't be read.
    """
    started = time.time_ns()
    if not os.path.lexists(workspace):
        return Scan(started, b"")
    if not os.access(workspace, os.R_OK | os.X_OK):
        raise CheckpointError(f"{workspace} can't be read")
    walker = _Walker(workspace, pruned, above)
    walker.read(until=_ALONE)
    found = _find_all(workspace, walker.waiting, pruned) if walker.waiting else []
    if found is None:
        walker.read(until=MOST_FILES)
        found = []
        if walker.waiting:
            raise TooManyFiles(workspace)
    raw = b"\0".join([*walker.records, *found, b""])
    if raw.count(b"\0") > MOST_FILES:
        raise TooManyFiles(workspace)
    return Scan(started, raw, walker.unreadable)


class _Walker:
    """Reads folders breadth first, so that what is `waiting` can be divided evenly."""

    def __init__(self, workspace: Path, pruned: Collection[bytes], above: bytes) -> None:
        self._top = os.fsencode(workspace)
        self._pruned = pruned
        self.waiting: list[bytes] = [above]
        self.records: list[bytes] = []
        self.unreadable: list[bytes] = []

    def read(self, until: int) -> None:
        done = 0
        for folder in self.waiting:
            if len(self.records) > until:
                break
            done += 1
            try:
                records, folders = self._read_folder(folder)
            except FileNotFoundError:
                continue
            except OSError:
                self.unreadable.append(folder)
                continue
            self.records += records
            # The list grows during the iteration.
            self.waiting += folders
        self.waiting = self.waiting[done:]

    def _read_folder(self, folder: bytes) -> tuple[list[bytes], list[bytes]]:
        records, folders = [], []
        prefix = folder + b"/" if folder else b""
        with os.scandir(self._top + b"/" + folder) as entries:
            for entry in entries:
                path = prefix + entry.name
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder and (
                    path in self._pruned or (b"/" + path).endswith(REPOSITORY_OBJECTS)
                ):
                    continue
                try:
                    records.append(record_of(path, entry.stat(follow_symlinks=False)))
                except FileNotFoundError:
                    continue
                if is_folder:
                    folders.append(path)
        return records, folders


# --- find ---------------------------------------------------------------------------------------


def _find_all(
    workspace: Path, folders: list[bytes], pruned: Collection[bytes]
) -> list[bytes] | None:
    """Return the records of what is in `folders`; None where `find` fails or does not read all."""
    binary = next((path for path in _FINDS if os.access(path, os.X_OK)), None)
    if binary is None:
        return None
    several = min(_MOST_FINDS, os.cpu_count() or 1, len(folders))
    conditions = list(_conditions(pruned))
    started: list[subprocess.Popen[bytes]] = []
    try:
        for share in (folders[n::several] for n in range(several)):
            tops = [b"./" + folder for folder in share]
            started.append(_start([binary, *tops, *conditions], workspace))
        with ThreadPoolExecutor(several) as pool:
            outputs = list(pool.map(_read_records, started))
    except OSError:
        return None
    finally:
        for process in started:
            process.kill()
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
    if any(output is None for output in outputs):
        raise TooManyFiles(workspace)
    # Python reports better what could not be read, and why.
    if any(process.returncode != 0 for process in started):
        return None
    return [output[:-1] for output in outputs if output]


def _conditions(pruned: Iterable[bytes]) -> Iterator[str | bytes]:
    yield from ("-mindepth", "1", "-type", "d", "(")
    yield from ("-name", "objects", "-path", f"*{os.fsdecode(REPOSITORY_OBJECTS)}")
    for path in pruned:
        yield from ("-o", "-path", b"./" + _literal(path))
    yield from (")", "-prune", "-o", "-type", "d", "-printf", _FOLDER_FORMAT)
    yield from ("-o", "-printf", _FILE_FORMAT)


def _literal(path: bytes) -> bytes:
    for special in (b"\\", b"*", b"?", b"["):
        path = path.replace(special, b"\\" + special)
    return path


def _start(command: list[str | bytes], workspace: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=workspace,
        env={"LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )


def _read_records(process: subprocess.Popen[bytes]) -> bytes | None:
    """Return the whole output; None when it is too much."""
    assert process.stdout is not None
    chunks = []
    count = 0
    while chunk := process.stdout.read(_CHUNK):
        chunks.append(chunk)
        count += chunk.count(b"\0")
        if count > MOST_FILES:
            return None
    process.wait()
    return b"".join(chunks)


IGNORED_FILES = 5_000
IGNORED_BYTES = 200_000_000
"""Limits up to which an ignored folder is worth keeping: `.env`, settings, a small build."""
REGENERABLE = frozenset(map(os.fsencode, {*GENERATED, "target"}))
"""Folders that tools can fill again; used without git, which has its own ignore list."""
CAN_BE_MADE_AGAIN = "can be made again"
_REPOSITORY_STORES = frozenset({b"lfs", b"annex", b"modules"})
"""Folders of a `.git` that hold files as large as those of a workspace."""


def large_folders(
    files: Iterable[FileFacts], workspace: Path, git: Git
) -> dict[bytes, tuple[int, str]]:
    """Return the topmost folders to leave out: how many files they hold, and why."""
    sizes = {
        path: count
        for path, (count, size) in _sums(files).items()
        if count > IGNORED_FILES or size > IGNORED_BYTES
    }
    reasons = dict.fromkeys(_ignored(sizes, workspace, git), "ignored by git")
    without_git = not os.path.lexists(workspace / os.fsdecode(REPOSITORY))
    for path in sizes:
        name = path.rsplit(b"/", 1)[-1]
        if without_git and name in REGENERABLE:
            reasons.setdefault(path, CAN_BE_MADE_AGAIN)
        elif name in _REPOSITORY_STORES and path.endswith(b"/".join((REPOSITORY, name))):
            reasons.setdefault(path, "large files of the repository")
    return {
        path: (sizes[path], reason)
        for path, reason in reasons.items()
        if not any(above in reasons for above in with_parents(path) if above != path)
    }


def _sums(files: Iterable[FileFacts]) -> dict[bytes, tuple[int, int]]:
    """Return the number and bytes of the files in each folder, at any depth."""
    directly: dict[bytes, list[int]] = {}
    for facts in files:
        directly.setdefault(facts.path.rpartition(b"/")[0], []).append(facts.size)
    directly.pop(b"", None)
    counts: Counter[bytes] = Counter()
    sizes: Counter[bytes] = Counter()
    for folder, its in directly.items():
        for above in with_parents(folder):
            counts[above] += len(its)
            sizes[above] += sum(its)
    return {folder: (counts[folder], sizes[folder]) for folder in counts}


def _ignored(folders: Iterable[bytes], workspace: Path, git: Git) -> set[bytes]:
    # git refuses questions about paths within a repository folder.
    asked = [path for path in folders if REPOSITORY not in path.split(b"/")]
    if not asked or not has_git():
        return set()
    exclude = workspace / ".git" / "info" / "exclude"
    more = ["-c", f"core.excludesFile={exclude}"] if exclude.is_file() else []
    # Without `./`, git would read a leading colon as pathspec magic.
    data = b"".join(b"./" + path + b"\0" for path in asked)
    arguments = [*more, "check-ignore", "--no-index", "-z", "--stdin"]
    try:
        printed = git.run(*arguments, data=data, work_tree=workspace, ok=1)
    except CheckpointError:
        # They then count as not ignored, which costs time and space but loses nothing.
        return set()
    return {path.removeprefix(b"./") for path in printed.split(b"\0") if path}
