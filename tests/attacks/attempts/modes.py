"""Programs in the workspace that give whoever starts them the person's rights."""

# ruff: noqa: PTH101

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import stat
import struct
from collections.abc import Callable
from typing import Any

from ._parts import attempt, by_child, called, first_success, libc, require

MODE = 0o4755
AT_FDCWD = -100


def _made(place: dict[str, Any], name: str, make: Callable[[str], object]) -> str:
    """What has either bit in the end, if `make` sets or creates it with one."""
    path = f"{place['workspace']}/{name}-{os.urandom(4).hex()}"
    make(path)
    require(os.lstat(path).st_mode & (stat.S_ISUID | stat.S_ISGID))
    return path


def _copied(path: str) -> str:
    shutil.copyfile("/bin/sh", path)
    return path


@attempt
def set_id_by_chmod(place: dict[str, Any]) -> object:
    return _made(place, "chmod", lambda path: os.chmod(_copied(path), MODE))


@attempt
def set_group_id_by_chmod(place: dict[str, Any]) -> object:
    return _made(place, "group", lambda path: os.chmod(_copied(path), 0o2755))


@attempt
def set_id_by_chmod_in_folder(place: dict[str, Any]) -> object:
    def change(path: str) -> None:
        folder = os.open(place["workspace"], os.O_RDONLY)
        os.chmod(os.path.basename(_copied(path)), MODE, dir_fd=folder)  # noqa: PTH119

    return _made(place, "chmod-at", change)


@attempt
def set_id_by_fchmod(place: dict[str, Any]) -> object:
    def change(path: str) -> None:
        os.fchmod(os.open(_copied(path), os.O_RDONLY), MODE)

    return _made(place, "fchmod", change)


@attempt
def set_id_by_creating(place: dict[str, Any]) -> object:
    flags = os.O_CREAT | os.O_WRONLY
    return _made(place, "open", lambda path: os.open(path, flags, MODE))


@attempt
def set_id_by_old_calls(place: dict[str, Any]) -> object:
    """`open`, `creat`, `chmod`: the C library calls newer ones, and arm64 has none of these."""
    require(os.uname().machine == "x86_64", "another machine")
    calls: dict[str, Callable[[bytes], int]] = {
        "old-open": lambda name: libc.syscall(2, name, os.O_CREAT | os.O_WRONLY, MODE),
        "old-creat": lambda name: libc.syscall(85, name, MODE),
        "old-mknod": lambda name: libc.syscall(133, name, stat.S_IFREG | MODE, 0),
        "old-chmod": lambda name: libc.syscall(90, _copied(name.decode()).encode(), MODE),
    }
    return first_success(
        lambda name: _made(place, name, lambda path: called(calls[name](path.encode()))), calls
    )


@attempt
def set_id_by_new_calls(place: dict[str, Any]) -> object:
    """One passes its mode where a filter can't look."""
    how = struct.pack("QQQ", os.O_CREAT | os.O_WRONLY, MODE, 0)
    calls: dict[str, Callable[[bytes], int]] = {
        "openat2": lambda name: libc.syscall(437, AT_FDCWD, name, how, len(how)),
        "fchmodat2": lambda name: libc.syscall(
            452, AT_FDCWD, _copied(name.decode()).encode(), MODE, 0
        ),
    }
    return first_success(
        lambda name: _made(place, name, lambda path: called(calls[name](path.encode()))), calls
    )


@attempt
def set_id_by_node(place: dict[str, Any]) -> object:
    return _made(place, "mknod", lambda path: os.mknod(path, stat.S_IFREG | MODE))


@attempt
def set_id_by_nameless_file(place: dict[str, Any]) -> object:
    def link(path: str) -> None:
        handle = os.open(place["workspace"], os.O_TMPFILE | os.O_RDWR, MODE)
        name, followed = f"/proc/self/fd/{handle}".encode(), 0x400
        called(libc.linkat(AT_FDCWD, name, AT_FDCWD, path.encode(), followed))

    return _made(place, "tmpfile", link)


@attempt
def set_id_as_32_bit(place: dict[str, Any]) -> object:
    """By a processor instruction whose numbers mean other calls."""
    require(os.uname().machine == "x86_64", "another machine")

    def change(path: str) -> None:
        low_addresses = 0x40
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | low_addresses
        page = mmap.mmap(-1, 4096, flags, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        name, chmod = address + 2048, 15
        page[2048 : 2048 + len(path) + 1] = _copied(path).encode() + b"\0"
        code = b"\x53\xb8" + struct.pack("<I", chmod) + b"\xbb" + struct.pack("<I", name)
        code += b"\xb9" + struct.pack("<I", MODE) + b"\xcd\x80\x5b\xc3"
        page[: len(code)] = code
        by_child(ctypes.CFUNCTYPE(ctypes.c_int)(address))

    return _made(place, "32-bit", change)
