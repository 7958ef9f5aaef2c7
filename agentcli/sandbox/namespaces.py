"""Namespaces for the layer "landlock", on machines that have them but not bwrap: only what commands
may write is writable, and /tmp, shared memory, terminals and the loopback are their own.

Landlock guards the contents and names of files. Their modes, owners, times and attributes it leaves
to whoever owns them, but on a read-only mount nobody changes those.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from agentcli.sandbox.seccomp import c_library

SHARED_MEMORY, TERMINALS = Path("/dev/shm"), Path("/dev/pts")
_OWN_DEVICES = (
    (SHARED_MEMORY, b"tmpfs", b"mode=1777"),
    (TERMINALS, b"devpts", b"newinstance,ptmxmode=0666,mode=620"),
)
_NEW_USER, _NEW_MOUNTS, _NEW_IPC, _NEW_NET = 0x10000000, 0x00020000, 0x08000000, 0x40000000
_RECURSIVE, _RECEIVING = 1 << 14, 1 << 19
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_COPY, _WHOLE, _EMPTY_PATH, _EMPTY_FROM, _READ_ONLY = 1, 0x8000, 0x1000, 4, 1
_HERE = -100
_SET_INTERFACE, _UP = 0x8914, 0x1


def namespaces_installer(
    writable: Iterable[Path],
    shown: Iterable[Path],
    mounts: Mapping[Path, Path],
    *,
    network: bool,
    cwd: str,
) -> Callable[[], None]:
    """Return a function that puts the calling process into such namespaces and into the folder
    `cwd`. Create it before a fork, and call it before the rules of Landlock, which forbid mounting.
    The function raises OSError.

    `mounts` are folders to mount, by their place. What is `writable` or `shown` and lies below such
    a place is seen there. `network`: it stays in the machine's.
    """
    libc = c_library()
    ids = ("setgroups", "deny"), ("uid_map", _same(os.geteuid())), ("gid_map", _same(os.getegid()))
    opened = _outermost(path for path in writable if path != SHARED_MEMORY)
    seen = [path for path in shown if path not in opened and not _is_below(path, opened)]
    again = [path for path in _outermost(seen) if _is_below(path, mounts)]

    def install() -> None:
        if libc.unshare(_NEW_USER | _NEW_MOUNTS | _NEW_IPC | (0 if network else _NEW_NET)):
            raise OSError(ctypes.get_errno(), "the kernel refused new namespaces")
        for name, text in ids:
            _write(f"/proc/self/{name}", text)
        if not network:
            _start_loopback()
        _call(libc.mount, None, b"/", None, ctypes.c_ulong(_RECURSIVE | _RECEIVING), None)
        # Copied while they can still be written, as far as they can.
        present = (path for path in opened if path.exists() and not path.is_symlink())
        trees = [(path, _tree(libc, path)) for path in present]
        trees += [(place, _tree(libc, source)) for place, source in mounts.items()]
        trees += [(path, _tree(libc, path, read_only=True)) for path in again if path.exists()]
        _set_read_only(libc, _HERE, b"/")
        for place, kind, options in _OWN_DEVICES:
            _call(libc.mount, kind, os.fsencode(place), kind, 0, options)
        for path, tree in sorted(trees, key=lambda each: len(each[0].parts)):
            _make_place(path, tree)
            _call(libc.syscall, _MOVE_MOUNT, tree, b"", _HERE, os.fsencode(path), _EMPTY_FROM)
            os.close(tree)
        os.chdir(cwd)

    return install


def _same(number: int) -> str:
    return f"{number} {number} 1"


def _outermost(paths: Iterable[Path]) -> list[Path]:
    found = dict.fromkeys(paths)
    return [path for path in found if not _is_below(path, found)]


def _is_below(path: Path, places: Iterable[Path]) -> bool:
    return any(path != place and path.is_relative_to(place) for place in places)


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY)
    try:
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _make_place(path: Path, tree: int) -> None:
    """Make what `tree` can be mounted on if there is nothing: in a folder that was just mounted,
    and is the session's."""
    if not path.exists():
        is_folder = stat.S_ISDIR(os.fstat(tree).st_mode)
        (path if is_folder else path.parent).mkdir(parents=True, exist_ok=True)
        if not is_folder:
            path.touch()


def _start_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SET_INTERFACE, struct.pack("16sH14x", b"lo", _UP))


def _tree(libc: ctypes.CDLL, path: Path, *, read_only: bool = False) -> int:
    """Return a copy of the mounts at and below `path`, not mounted yet."""
    tree = _call(libc.syscall, _OPEN_TREE, _HERE, os.fsencode(path), _COPY | _WHOLE)
    if read_only:
        _set_read_only(libc, tree, b"")
    return tree


def _set_read_only(libc: ctypes.CDLL, at: int, name: bytes) -> None:
    attributes = struct.pack("=QQQQ", _READ_ONLY, 0, 0, 0)
    size = ctypes.c_size_t(len(attributes))
    _call(libc.syscall, _MOUNT_SETATTR, at, name, _WHOLE | _EMPTY_PATH, attributes, size)


def _call(function: Callable[..., int], *arguments: object) -> int:
    """Raises OSError."""
    if (result := function(*arguments)) < 0:
        raise OSError(ctypes.get_errno(), "the kernel refused a mount")
    return result
