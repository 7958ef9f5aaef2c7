"""What a snapshot takes from a repository within the workspace: links to its object files, and the
ids of files that its index knows.

No git reads the repository: neither its configuration nor anything that it names has any effect.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentcli.runtime.snapshot_limits import LARGEST_FILE
from agentcli.runtime.snapshot_scan import REPOSITORY, UNCERTAIN_NS, Facts, record_of, time_text
from agentcli.runtime.snapshot_trees import Entry, entry_mode

_FAN = re.compile(r"[0-9a-f]{2}")
_LOOSE = re.compile(r"[0-9a-f]{38}|[0-9a-f]{62}")
_PACKED = re.compile(r"pack-[0-9a-f]{40,64}\.(pack|idx|rev|bitmap|mtimes|keep|promisor)")
_SETTLED_NS = 2_000_000_000
"""A folder changed this recently may change again within the same tick of a coarse clock."""


class ObjectLinks:
    """Hard links to the object files of the workspace's repositories, one folder for each.

    Object files are never changed, only removed, so that a link is as good as a copy.
    """

    def __init__(self, workspace: Path, store: Path) -> None:
        self._workspace = workspace
        self._store = store
        self._seen: dict[Path, int] = {}

    def folder(self, repository: bytes) -> Path:
        """Where the links of the `.git` at this path of the workspace are."""
        name = hashlib.sha1(repository, usedforsecurity=False).hexdigest()
        return self._store / "repositories" / name / "objects"

    def update(self, repository: bytes) -> tuple[list[bytes], list[Path]]:
        """Links what is new. Returns the records of the files among the objects that do change,
        which are for the snapshot itself, and the objects that could be neither linked nor copied.
        """
        objects = self._workspace / os.fsdecode(repository) / "objects"
        if not _is_folder(objects):
            return [], []
        links = self.folder(repository)
        if not links.exists():
            links.mkdir(mode=0o700, parents=True)
            publish_links(self._store)
        missed: list[Path] = []
        records: list[bytes] = []
        for name in _names(objects):
            if _FAN.fullmatch(name):
                missed += self._link_new(objects / name, links / name, _LOOSE)
            elif name == "pack":
                missed += self._link_new(objects / name, links / name, _PACKED)
        for changing in (objects / "info", objects / "pack"):
            records += self._records(changing)
        return records, missed

    def _link_new(self, source: Path, target: Path, wanted: re.Pattern[str]) -> Iterator[Path]:
        try:
            facts = source.lstat()
        except OSError:
            return
        if self._seen.get(source) == facts.st_mtime_ns or not stat.S_ISDIR(facts.st_mode):
            return
        listed_at = time.time_ns()
        target.mkdir(mode=0o700, exist_ok=True)
        have = set(_names(target))
        for name in _names(source):
            if (
                name not in have
                and wanted.fullmatch(name)
                and not link_or_copy(source / name, target / name, LARGEST_FILE)
            ):
                yield source / name
        if facts.st_mtime_ns < listed_at - _SETTLED_NS:
            self._seen[source] = facts.st_mtime_ns

    def _records(self, folder: Path) -> Iterator[bytes]:
        if not _is_folder(folder):
            return
        yield self._record(folder)
        yield self._record(folder.parent)
        for name in _names(folder):
            path = folder / name
            if _PACKED.fullmatch(name) or name.startswith("tmp_") or name.endswith(".lock"):
                continue
            with contextlib.suppress(OSError):
                yield from self._records(path) if _is_folder(path) else [self._record(path)]

    def _record(self, path: Path) -> bytes:
        return record_of(os.fsencode(path.relative_to(self._workspace)), path.lstat())


def publish_links(store: Path) -> None:
    """Tells git where else the objects of our trees may be."""
    info = store / "objects" / "info"
    info.mkdir(mode=0o700, exist_ok=True)
    names = sorted(path.name for path in (store / "repositories").glob("*"))
    temporary = info / "tmp_alternates"
    temporary.write_text("".join(f"../repositories/{name}/objects\n" for name in names))
    temporary.replace(info / "alternates")


def link_or_copy(source: Path, target: Path, largest_copy: int) -> bool:
    """False if it is too large to be copied to another file system, or can't be read. What is
    gone, or is no file, counts as done."""
    with contextlib.suppress(FileExistsError, FileNotFoundError):
        if not stat.S_ISREG(source.lstat().st_mode):
            return True
        try:
            os.link(source, target, follow_symlinks=False)
        except OSError:
            if source.lstat().st_size > largest_copy:
                return False
            temporary = target.with_name(f"tmp_{target.name}")
            try:
                shutil.copyfile(source, temporary, follow_symlinks=False)
            except PermissionError:
                return False
            temporary.chmod(0o444)
            temporary.replace(target)
    return True


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def _names(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in os.scandir(folder)]
    except OSError:
        return []


# --- the index ----------------------------------------------------------------------------------

_INDEX_HEADER = struct.Struct(">4sII")
_INDEX_ENTRY = struct.Struct(">10I20sH")
_NOT_PLAIN = 0x8000 | 0x4000 | 0x3000
"""Flags of an entry: assumed valid, extended (a version 3 index), in conflict."""
_CONVERTS = re.compile(rb"autocrlf|\beol\b|attributesfile|include|worktreeconfig", re.I)
_LARGEST_INDEX = 100_000_000


def known_ids(workspace: Path, files: Mapping[bytes, Facts]) -> dict[bytes, Entry]:
    """Entries for those of `files` whose content has the id that the index of the workspace's
    repository gives it, none at all if git may have converted contents. A hint that the objects
    exist, not more.
    """
    repository = workspace / os.fsdecode(REPOSITORY)
    if _may_convert(repository, files):
        return {}
    index = repository / "index"
    try:
        facts = index.lstat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > _LARGEST_INDEX:
            return {}
        data = index.read_bytes()
        return dict(_matching(data, files, facts.st_mtime_ns))
    except (OSError, struct.error, ValueError):
        return {}


def _may_convert(repository: Path, files: Mapping[bytes, Facts]) -> bool:
    if any(path.endswith(b".gitattributes") for path in files):
        return True
    home = Path(os.environ.get("HOME") or "/nonexistent")
    xdg = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config") / "git"
    attributes = (
        repository / "info" / "attributes",
        xdg / "attributes",
        Path("/etc/gitattributes"),
    )
    if any(os.path.lexists(path) for path in attributes):
        return True
    if any(name in os.environ for name in ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS")):
        return True
    configs = (repository / "config", home / ".gitconfig", xdg / "config", Path("/etc/gitconfig"))
    named = (os.environ.get("GIT_CONFIG_GLOBAL"), os.environ.get("GIT_CONFIG_SYSTEM"))
    return any(map(_converts, (*configs, *(Path(name) for name in named if name))))


def _converts(config: Path) -> bool:
    try:
        if not os.path.lexists(config) or not config.is_file():
            return False
        return _CONVERTS.search(config.read_bytes()) is not None
    except OSError:
        return True


def _matching(
    data: bytes, files: Mapping[bytes, Facts], written_ns: int
) -> Iterator[tuple[bytes, Entry]]:
    signature, version, count = _INDEX_HEADER.unpack_from(data)
    digest = hashlib.sha1(memoryview(data)[:-20], usedforsecurity=False).digest()
    if signature != b"DIRC" or version not in (2, 3) or digest != data[-20:]:
        return
    at = _INDEX_HEADER.size
    found = []
    for _ in range(count):
        *facts, oid, flags = _INDEX_ENTRY.unpack_from(data, at)
        start = at + _INDEX_ENTRY.size + (2 if flags & 0x4000 else 0)
        end = data.index(b"\0", start)
        path = data[start:end]
        if path.endswith(b".gitattributes"):
            return
        # Entries are padded with one to eight NULs to a multiple of eight bytes.
        at += (end - at + 8) & ~7
        now = files.get(path)
        if now is not None and not flags & _NOT_PLAIN and _is_same(facts, now, written_ns):
            kind = stat.S_IFLNK if now.kind == b"l" else stat.S_IFREG
            found.append((path, Entry(entry_mode(kind | now.mode), oid)))
    # An extension with a small letter changes what the entries mean.
    while at < len(data) - 20:
        if data[at] >= ord("a"):
            return
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "big")
    yield from found


def _is_same(entry: list[int], now: Facts, written_ns: int) -> bool:
    changed_s, changed_ns, modified_s, modified_ns, _, inode, mode, _, _, size = entry
    kind = {b"f": stat.S_IFREG, b"l": stat.S_IFLNK}.get(now.kind)
    changed = changed_s * 1_000_000_000 + changed_ns
    modified = modified_s * 1_000_000_000 + modified_ns
    return (
        kind == stat.S_IFMT(mode)
        and time_text(changed) == now.changed
        and time_text(modified) == now.modified
        and changed_ns != 0
        and inode == now.inode & 0xFFFFFFFF
        and size == now.size
        # Written in the same instant as the index, it may have changed after it was looked at.
        and modified + UNCERTAIN_NS < written_ns
    )
