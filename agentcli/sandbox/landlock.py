"""The layer "landlock": rules on files, ports and signals that a process imposes on itself, plus a
filter of system calls. It needs no other program, no namespaces and no privileges; Linux 5.13 or
newer.

Rules can only add rights, so a place is hidden by allowing everything around it, one path at a
time. File names can still be listed everywhere. Only the command's own terminal may be opened: the
others belong to the same user, and writing to them has effects. Root loses all its capabilities,
because they bypass the rules.

Where namespaces can be had, the process is put into some: only what commands may write is writable,
and /tmp, shared memory, terminals and the loopback are their own. Landlock guards the contents and
names of files. Their modes, owners, times and attributes it leaves to whoever owns them, but on a
read-only mount nobody changes those."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import socket
import stat
import struct
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentcli.sandbox.system_calls import (
    c_library,
    seccomp_installer,
    seccomp_program,
    set_no_new_privileges,
)
from agentcli.workspace.opening import hands_down_its_group
from agentcli.workspace.scope import OF_THE_KERNEL, AccessScope

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
        own = []
        with suppress(OSError):
            own.append((Path(os.ttyname(_OUTPUT)), _DEVICE_ACCESS & handled))
        _restrict(libc, attributes, [*rules, *own])
        _drop_capabilities(libc)
        filter_calls()

    return install


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
