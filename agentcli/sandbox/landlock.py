"""Layer "landlock": rules on files, ports and signals that a process puts on itself, with a filter
of system calls. Needs no other program, no namespaces and no rights; Linux 5.13 or newer.

Rules only ever add rights, so places are hidden by allowing everything around them one by one.
Names of files can still be listed everywhere. Only the command's own terminal may be opened: others
belong to the same user, and what is written there takes effect.

Root keeps none of its capabilities, as they bypass the rules.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from agentcli.files.access_scope import OF_THE_KERNEL, AccessScope
from agentcli.sandbox.seccomp import (
    c_library,
    seccomp_installer,
    seccomp_program,
    set_no_new_privileges,
)

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_CHANGE_FOLDERS = 0x1FF0
"""Remove a folder or file; make a device, folder, file, socket, pipe, link."""
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_RESOLVE_UNIX = 1 << 16
"""Connect to a socket that is a file, unless the command itself has made it."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE | _RESOLVE_UNIX
_TCP = 0b11
"""Bind and connect."""
_SCOPES = 0b11
"""Abstract sockets, signals."""

SCOPES_VERSION, SOCKETS_VERSION = 6, 9
"""Versions of the interface that first restrict signals and abstract sockets (Linux 6.12), and
sockets that are files (Linux 7.1)."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "shm", "fd")
_DEVICE_ACCESS = _READ | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE
_OUTPUT = 1
"""Descriptor that is the command's terminal, if it has one."""

_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION = 0x20080522
_CAP_LAST = 63


_Rule = tuple[Path, int]
"""What may be done below a path."""


def landlock_version() -> int:
    """Of the kernel's interface, from 1; 0 where there is none."""
    if os.uname().sysname != "Linux":
        return 0
    version = c_library().syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(0, int(version))


def landlock_installer(
    scope: AccessScope, *, network: bool, families: Collection[int], folders: Sequence[Path] = ()
) -> Callable[[], None]:
    """What restricts the calling process for good, to be made before a fork; raises OSError.

    `families`: of sockets that may be made. `folders` are writable too: the
    agent and the command talk through them.
    """
    version = landlock_version()
    handled = _handled(version)
    rules = [(path, access & handled) for path, access in _allowed(scope, folders)]
    libc = c_library()
    ports = _TCP if version >= 4 and not network else 0
    # Older kernels refuse fields that they don't know.
    known = 24 if version >= SCOPES_VERSION else 16 if version >= 4 else 8
    attributes = struct.pack("=QQQ", handled, ports, _SCOPES)[:known]
    filter_calls = seccomp_installer(seccomp_program(families, shared=False))

    def install() -> None:
        own = [(path, _DEVICE_ACCESS & handled) for path in _own_terminal()]
        _restrict(libc, attributes, [*rules, *own])
        _drop_capabilities(libc)
        filter_calls()

    return install


def _own_terminal() -> Iterator[Path]:
    try:
        yield Path(os.ttyname(_OUTPUT))
    except OSError:
        return


def _drop_capabilities(libc: ctypes.CDLL) -> None:
    """Root's capabilities bypass the rules: files of other users, the environment of other
    processes, the name of the machine, limits. Raises OSError."""
    for capability in range(_CAP_LAST + 1):
        # Fails for one that the kernel does not know, and for users who have none.
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if libc.capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")


def scope_installer() -> Callable[[], None]:
    """What keeps the calling process from abstract sockets and from signalling others, and from
    nothing else; does nothing where the kernel can't restrict these."""
    if landlock_version() < SCOPES_VERSION:
        return lambda: None
    libc = c_library()
    attributes = struct.pack("=QQQ", 0, 0, _SCOPES)
    return lambda: _restrict(libc, attributes, ())


def _restrict(libc: ctypes.CDLL, attributes: bytes, rules: Iterable[_Rule]) -> None:
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock made no set of rules")
    for path, access in rules:
        _add(libc, ruleset, path, access)
    set_no_new_privileges(libc)
    if libc.syscall(_RESTRICT_SELF, ruleset, 0):
        raise OSError(ctypes.get_errno(), "Landlock refused the rules")
    os.close(ruleset)


def _add(libc: ctypes.CDLL, ruleset: int, path: Path, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    attributes = struct.pack("=Qi", access, descriptor)
    if libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, attributes, 0):
        if ctypes.get_errno() != errno.EINVAL:
            raise OSError(ctypes.get_errno(), f"Landlock refused a rule for {path}")
        # Rights on folders mean nothing for a file, and the kernel says so.
        attributes = struct.pack("=Qi", access & _OF_FILES, descriptor)
        libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, attributes, 0)
    os.close(descriptor)


def _handled(version: int) -> int:
    access = _READ | _WRITE_FILE | _CHANGE_FOLDERS
    access |= _REFER if version >= 2 else 0
    access |= _TRUNCATE if version >= 3 else 0
    access |= _IOCTL_DEVICE if version >= 5 else 0
    return access | (_RESOLVE_UNIX if version >= SOCKETS_VERSION else 0)


def _allowed(scope: AccessScope, folders: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    write = _READ | _WRITE_FILE | _CHANGE_FOLDERS | _REFER | _TRUNCATE | _RESOLVE_UNIX
    if not scope.shown:
        yield Path("/"), _READ_DIR
    unseen = {*scope.hidden, *scope.mounts, Path("/dev")}
    for path in _around(unseen):
        for part in _parts_shown(path, scope.shown) if scope.shown else (path,):
            yield part, _READ
    for path in (*scope.readable, *scope.named):
        yield path, _READ
    for name in _DEVICES:
        yield Path("/dev") / name, _DEVICE_ACCESS
    yield Path("/dev/shm"), write
    writable = [part for path in scope.writable for part in _parts_writable(path, scope)]
    for path in (*writable, *scope.mounts.values()):
        if scope.sealed and path in writable:
            # What is not below a place that is replaced can be read already.
            if not any(hidden.is_relative_to(path) for hidden in scope.hidden):
                yield path, _READ
        elif any(hidden.is_relative_to(path) for hidden in scope.hidden):
            # Writing is not reading: what is hidden in there stays unread.
            yield path, write & ~_READ_FILE & ~_EXECUTE
        else:
            yield path, write
    for path in folders:
        yield path, write


def _parts_writable(path: Path, scope: AccessScope) -> list[Path]:
    """`path` itself; of the root what lies in it, as there are places below that are none of its
    files, and rights can't be taken back."""
    if path != Path("/"):
        return [path]
    unseen = {*OF_THE_KERNEL, *map(str, scope.mounts)}
    return [Path(each.path) for each in os.scandir("/") if each.path not in unseen]


def _parts_shown(path: Path, shown: Iterable[Path]) -> Iterator[Path]:
    """What of `path` is within what is shown: all of it, or what is shown of it."""
    for place in shown:
        if path.is_relative_to(place):
            yield path
            return
        if place.is_relative_to(path):
            yield place


def _around(unseen: Iterable[Path]) -> Iterator[Path]:
    """The fewest paths that cover everything but `unseen`."""
    unseen = set(unseen)
    above = {parent for path in unseen for parent in path.parents}
    for folder in sorted(above):
        if any(parent in unseen for parent in (folder, *folder.parents)):
            continue
        try:
            names = os.listdir(folder)  # noqa: PTH208 - many names, and Path costs
        except OSError:
            continue
        for name in names:
            path = folder / name
            if path not in unseen and path not in above and not path.is_symlink():
                yield path
