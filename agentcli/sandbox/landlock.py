"""The layer "landlock": rules on files, ports and signals that a process imposes on itself, plus a
filter of system calls. It needs no other program, no namespaces and no privileges; Linux 5.13 or
newer. Where namespaces can be had, it is put into some.

Rules can only add rights, so a place is hidden by allowing everything around it, one path at a
time. File names can still be listed everywhere. Only the command's own terminal may be opened: the
others belong to the same user, and writing to them has effects.

Root loses all its capabilities, because they bypass the rules.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path

from agentcli.sandbox.namespaces import SHARED_MEMORY, TERMINALS
from agentcli.sandbox.seccomp import (
    c_library,
    seccomp_installer,
    seccomp_program,
    set_no_new_privileges,
)
from agentcli.workspace.access_scope import OF_THE_KERNEL, AccessScope
from agentcli.workspace.set_id import hands_down_its_group

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_FLAG, _PATH_BENEATH = 1, 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_CHANGE_FOLDERS = 0x1FF0
"""Remove a folder or file; make a device, folder, file, socket, pipe or symlink."""
_REFER, _TRUNCATE, _IOCTL_DEVICE = 1 << 13, 1 << 14, 1 << 15
_RESOLVE_UNIX = 1 << 16
"""Connect to a socket in the file system, unless the command itself made it."""
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEVICE | _RESOLVE_UNIX
_TCP = 0b11
"""Bind and connect."""
_SCOPES = 0b11
"""Abstract sockets and signals."""

SCOPES_VERSION, SOCKETS_VERSION = 6, 9
"""First versions of the interface that restrict signals and abstract sockets (Linux 6.12), and
sockets in the file system (Linux 7.1)."""
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "shm", "fd")
_DEVICE_ACCESS = _READ | _WRITE_FILE | _TRUNCATE | _IOCTL_DEVICE
_OUTPUT = 1
"""The descriptor that is the command's terminal, if it has one."""

_PR_CAPBSET_DROP = 24
_CAPABILITY_VERSION = 0x20080522
_CAP_LAST = 63


_Rule = tuple[Path, int]
"""A path and the access allowed at and below it."""


def landlock_version() -> int:
    """Return the version of the kernel's interface, from 1; 0 if it has none."""
    if os.uname().sysname != "Linux":
        return 0
    version = c_library().syscall(_CREATE_RULESET, None, 0, _VERSION_FLAG)
    return max(0, int(version))


def landlock_installer(
    scope: AccessScope,
    *,
    network: bool,
    families: Collection[int],
    folders: Sequence[Path] = (),
    namespaces: bool = False,
) -> Callable[[], None]:
    """Return a function that restricts the calling process for good; create it before a fork. The
    function raises OSError.

    `families` are the kinds of sockets that may be made. `folders` are writable too, for the agent
    and the command to communicate. `namespaces`: it has its own mounts, IPC and, unless `network`,
    its own network.
    """
    version = landlock_version()
    handled = _handled(version)
    rules = [(path, access & handled) for path, access in _allowed(scope, folders)]
    rules += [(TERMINALS, _DEVICE_ACCESS & handled)] if namespaces else []
    libc = c_library()
    ports = _TCP if version >= 4 and not (network or namespaces) else 0
    # Older kernels refuse fields that they do not know.
    known = 24 if version >= SCOPES_VERSION else 16 if version >= 4 else 8
    attributes = struct.pack("=QQQ", handled, ports, _SCOPES)[:known]
    group_bit = any(map(hands_down_its_group, scope.writable))
    program = seccomp_program(
        families, shared=namespaces, attributes=namespaces, group_bit=group_bit
    )
    filter_calls = seccomp_installer(program)

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
    """Drop root's capabilities, which bypass the rules: they give access to files of other users,
    the environment of other processes, the machine's name, limits. Raises OSError."""
    for capability in range(_CAP_LAST + 1):
        # Fails if the kernel does not know the capability or the user has none.
        libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("=Ii", _CAPABILITY_VERSION, 0)
    if libc.capset(header, bytes(24)):
        raise OSError(ctypes.get_errno(), "capabilities could not be dropped")


def scope_installer() -> Callable[[], None]:
    """Return a function that keeps the calling process from abstract sockets and from signalling
    others, and restricts nothing else. It does nothing if the kernel can't restrict these."""
    if landlock_version() < SCOPES_VERSION:
        return lambda: None
    libc = c_library()
    attributes = struct.pack("=QQQ", 0, 0, _SCOPES)
    return lambda: _restrict(libc, attributes, ())


def _restrict(libc: ctypes.CDLL, attributes: bytes, rules: Iterable[_Rule]) -> None:
    ruleset = libc.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    if ruleset < 0:
        raise OSError(ctypes.get_errno(), "Landlock could not create a ruleset")
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
        # The kernel rejects rights for folders on a file.
        attributes = struct.pack("=Qi", access & _OF_FILES, descriptor)
        libc.syscall(_ADD_RULE, ruleset, _PATH_BENEATH, attributes, 0)
    os.close(descriptor)


def _handled(version: int) -> int:
    access = _READ | _WRITE_FILE | _CHANGE_FOLDERS
    access |= _REFER if version >= 2 else 0
    access |= _TRUNCATE if version >= 3 else 0
    access |= _IOCTL_DEVICE if version >= 5 else 0
    return access | (_RESOLVE_UNIX if version >= SOCKETS_VERSION else 0)


def writable_places(scope: AccessScope, folders: Sequence[Path]) -> list[Path]:
    """Return the places in which the rules let commands make files."""
    return [path for path, access in _allowed(scope, folders) if access & _CHANGE_FOLDERS]


def _allowed(scope: AccessScope, folders: Sequence[Path]) -> Iterator[tuple[Path, int]]:
    write = _READ | _WRITE_FILE | _CHANGE_FOLDERS | _REFER | _TRUNCATE | _RESOLVE_UNIX
    if not scope.confined_to:
        yield Path("/"), _READ_DIR
    unseen = {*scope.hidden, *scope.mounts, Path("/dev")}
    for path in _around(unseen):
        for part in _parts_shown(path, scope.confined_to) if scope.confined_to else (path,):
            yield part, _READ
    for path in (*scope.readable, *scope.user_named):
        yield path, _READ
    for name in _DEVICES:
        yield Path("/dev") / name, _DEVICE_ACCESS
    yield SHARED_MEMORY, write
    writable = [part for path in scope.writable for part in _parts_writable(path, scope)]
    for path in (*writable, *scope.mounts.values()):
        if scope.sealed and path in writable:
            # Unless it lies below a place that is hidden, it can be read already.
            if not any(hidden.is_relative_to(path) for hidden in scope.hidden):
                yield path, _READ
        elif any(hidden.is_relative_to(path) for hidden in scope.hidden):
            # Writable does not mean readable: what is hidden in there stays unreadable.
            yield path, write & ~_READ_FILE & ~_EXECUTE
        else:
            yield path, write
    for path in folders:
        yield path, write


def _parts_writable(path: Path, scope: AccessScope) -> list[Path]:
    """Return `path`, or for the root what is in it: some places there are not part of it, and a
    right once given can't be taken back."""
    if path != Path("/"):
        return [path]
    unseen = {*OF_THE_KERNEL, *map(str, scope.mounts)}
    return [Path(each.path) for each in os.scandir("/") if each.path not in unseen]


def _parts_shown(path: Path, shown: Iterable[Path]) -> Iterator[Path]:
    """Yield the part of `path` that is shown: all of it, or the shown places within."""
    for place in shown:
        if path.is_relative_to(place):
            yield path
            return
        if place.is_relative_to(path):
            yield place


def _around(unseen: Iterable[Path]) -> Iterator[Path]:
    """Yield the fewest paths that cover everything except `unseen`."""
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
