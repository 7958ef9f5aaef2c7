"""Replaces files: by renaming where possible, in place where a new file would break something.

Renaming is safe at any moment: there is the old text or the new. Written in place is a file whose
other names are known and may be written too, one that can't be renamed over (a mount point, a
folder that we may not write to), and one whose owner or attributes a new file would not get. A
complete copy of the new text then lies beside it until it is written, if the folder allows that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from agentcli.errors import ToolError
from agentcli.workspace.names import display_path
from agentcli.workspace.opening import Judge, name_on_disk, open_folder, require_regular

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD = os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CLOSED = (errno.EACCES, errno.EPERM, errno.EROFS)
"""The folder can't be written to; or, with EPERM, it is sticky and the file somebody else's."""
_MOST_ENTRIES = 200_000
"""Files looked at in search of the other names of one."""
_PERMISSIONS = 0o1777
_ACCESS_LIST = "system.posix_acl_access"
# Writing to a file takes the first from it, and makes the others wrong.
_LOST_BY_WRITING = ("security.capability", "security.ima", "security.evm")


def replace_file(
    target: Path, data: bytes, shown: str, judge: Judge, roots: Iterable[Path] = ()
) -> str:
    """Replace or create the file at the resolved `target`, and return what the caller should know
    of its other names or attributes. `roots` are where other names of it are looked for.

    A file that is replaced keeps its mode, but no set-user-ID or set-group-ID bit, as if it was
    written to. Raises OSError, also if a part of the path is now a symlink, and ToolError for what
    is no file or is read-only.
    """
    folder = open_folder(target.parent, make=True)
    try:
        if (name := name_on_disk(folder)) is not None:
            judge(name / target.name)
        before = _existing(target.name, folder, shown)
        if before is None or before.st_nlink < 2:
            return _replace(target.name, folder, data, before, at_once=True, alone=True)
        names: list[Path] = []
        # Commands may nest folders more deeply than the stack allows.
        with contextlib.suppress(OSError, RecursionError):
            names.extend(_names(before, roots))
        others = before.st_nlink - 1
        known = len(names) > others and all(_allowed(judge, each) for each in names)
        lost = _replace(target.name, folder, data, before, at_once=not known, alone=known)
        if known:
            more = [display_path(each) for each in names if each != target]
            return f"also as {', '.join(more[:5])}: hard links to the same file"
        count = "another name" if others == 1 else f"{others} other names"
        kept = f"it had {count}, a hard link, that may not be written and keeps the old text"
        return "; ".join(filter(None, (kept, lost)))
    finally:
        os.close(folder)


def _existing(name: str, folder: int, shown: str) -> os.stat_result | None:
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    require_regular(info.st_mode, shown)
    # Renaming over a file needs no write permission on it; respect that it is missing.
    if not os.access(name, os.W_OK, dir_fd=folder):
        raise ToolError(f"{shown} is read-only.", error_id="permission_denied")
    return info


def _allowed(judge: Judge, path: Path) -> bool:
    try:
        judge(path)
    except ToolError:
        return False
    return True


def _names(wanted: os.stat_result, roots: Iterable[Path]) -> Iterator[Path]:
    """Yield the names of a file below `roots`, never through a symlink, within a limit."""
    left = _MOST_ENTRIES
    seen = set()
    for root in roots:
        for above, _, files, folder in os.fwalk(root):
            for name in files:
                with contextlib.suppress(OSError):
                    info = os.stat(name, dir_fd=folder, follow_symlinks=False)
                    if os.path.samestat(info, wanted) and (path := Path(above, name)) not in seen:
                        seen.add(path)
                        yield path
            left -= len(files)
            if left < 0 or len(seen) == wanted.st_nlink:
                return


def _replace(
    name: str,
    folder: int,
    data: bytes,
    before: os.stat_result | None,
    *,
    at_once: bool,
    alone: bool,
) -> str:
    """Write the file, by renaming if that is to be done `at_once`; in place only if nothing else is
    changed by that, so that it is `alone`, or if it is a mount point."""
    temporary = f".agent-{os.urandom(8).hex()}.tmp"
    try:
        handle = os.open(temporary, _NEW, 0o666 if before is None else 0o600, dir_fd=folder)
    except OSError as error:
        if before is None or not alone or error.errno not in _CLOSED:
            raise
        _write_in_place(name, folder, data, before)
        return ""
    try:
        with open(handle, "wb") as file:
            lost = before is not None and _loses_attributes(handle, name, folder, before)
            file.write(data)
            file.flush()
            os.fsync(handle)
        if before is None or (at_once and not (lost and alone)):
            try:
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                return "its owner or attributes could not be kept" if lost else ""
            except OSError as error:
                in_place = error.errno == errno.EBUSY or (alone and error.errno in _CLOSED)
                if before is None or not in_place:
                    raise
        _write_in_place(name, folder, data, before)
        return ""
    finally:
        # After renaming it is gone.
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)


def _loses_attributes(handle: int, name: str, folder: int, before: os.stat_result) -> bool:
    """Give the new file the owner, mode and attributes of the old one, and return whether one could
    not be kept. Raises OSError."""
    lost = False
    info = os.fstat(handle)
    if (info.st_uid, info.st_gid) != (before.st_uid, before.st_gid):
        try:
            os.fchown(handle, before.st_uid, before.st_gid)
        except OSError:
            lost = True
    os.fchmod(handle, stat.S_IMODE(before.st_mode) & _PERMISSIONS)
    if not hasattr(os, "listxattr"):
        return lost
    old = f"/proc/self/fd/{folder}/{name}"
    try:
        names = os.listxattr(old, follow_symlinks=False)
    except OSError:
        return lost
    if _ACCESS_LIST not in names:
        # The folder may have given it one.
        with contextlib.suppress(OSError):
            os.removexattr(handle, _ACCESS_LIST)
    for each in names:
        if each in _LOST_BY_WRITING:
            continue
        try:
            value = os.getxattr(old, each, follow_symlinks=False)
            if each not in os.listxattr(handle) or os.getxattr(handle, each) != value:
                os.setxattr(handle, each, value)
        except OSError:
            lost = True
    return lost


def _write_in_place(name: str, folder: int, data: bytes, before: os.stat_result) -> None:
    """Write to the file itself. Raises OSError, ToolError if it was replaced meanwhile."""
    with open(os.open(name, _OLD, dir_fd=folder), "wb", buffering=0) as file:
        handle = file.fileno()
        info = os.fstat(handle)
        if not os.path.samestat(info, before) or not stat.S_ISREG(info.st_mode):
            raise ToolError(
                f"{display_path(name)} was replaced meanwhile: nothing was written.",
                error_id="file_changed",
            )
        _reserve(handle, info.st_size, len(data))
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
        file.truncate()
        if info.st_mode & (stat.S_ISUID | stat.S_ISGID):
            with contextlib.suppress(OSError):
                os.fchmod(handle, stat.S_IMODE(info.st_mode) & _PERMISSIONS)
        os.fsync(handle)


def _reserve(handle: int, size: int, wanted: int) -> None:
    """Make sure that there is room before the old text goes. Raises OSError if there is none."""
    if wanted <= size or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(handle, size, wanted - size)
    except OSError as error:
        # Some file systems can't reserve; writing then tells.
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            os.ftruncate(handle, size)
            raise
