"""Restricts a process before it starts a command, in any layer: resource limits, and a filter of
system calls, a classic BPF program built from the list in `system_calls.txt`."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import struct
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32_BIT = 0x40000000

_SYSTEM_CALLS = Path(__file__).with_name("system_calls.txt")

_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_NEW_TIME_NAMESPACE = 0x80
_PERSONALITIES = (0, 0xFFFFFFFF)
_CALLER = (0,)
"""A process may set its own limits only, not those of others of the same user, such as the
agent."""
_TERMINAL_IOCTLS = (0x5412, 0x541C)
"""TIOCSTI injects typed input into the terminal, TIOCLINUX pastes into it."""
_IOCTLS_OF_FILES, _KIND_OF_IOCTL = (0x6600, 0x5800, 0x9400, 0x7600), 0xFF00
"""What file systems take from whoever owns a file, though it is open for reading only: chattr's
flags, projects, encryption, verity, subvolumes."""
_HARMLESS_IOCTLS = (
    *(0x80086601, 0x80087601, 0x801C581F, 0xC020660B, 0x81009431),
    *(0x40049409, 0x4020940D, 0xC0189436),
)
"""Reading some of that: FS_IOC_GETFLAGS, GETVERSION, FSGETXATTR, FIEMAP, GETFSLABEL. And writing by
sharing blocks, to a file that is open for writing: FICLONE, FICLONERANGE, FIDEDUPERANGE."""
_SOCK_RAW, _SOCK_PACKET, _SOCK_TYPE_MASK = 3, 10, 0xF
_SET_USER_ID, _SET_GROUP_ID = 0o4000, 0o2000
_CHANGES = {"chmod": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2}
"""Which argument is the mode."""
_CREATES = {"openat": 3, "open": 2, "creat": 1, "mknod": 1, "mknodat": 2}
"""The same. mkdir is not among them, because the kernel ignores these bits there."""
_FLAGS = {"openat": 2, "open": 1}
_NEW_FILE = 0o100 | 0o20000000
"""O_CREAT and O_TMPFILE. Without one, the mode is whatever the caller had in that register."""

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_ASK = 0x7FC00000
"""Have the process that listens decide."""

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

_Instruction = tuple[int, int, int, int]
"""Code, how many instructions to skip if true and if false, operand."""


def seccomp_known() -> bool:
    """Return whether we know the numbers of this machine's system calls."""
    return os.uname().machine in _ARCHITECTURES


def seccomp_program(
    families: Collection[int],
    *,
    shared: bool,
    attributes: bool = True,
    group_bit: bool = False,
    machine: str | None = None,
) -> bytes:
    """Return a `struct sock_filter[]` that allows sockets of `families`, but never raw ones.
    `shared`: shared memory and queues are safe, because the sandbox has an IPC namespace of its
    own. `attributes`: files that may not be written lie on read-only mounts. `group_bit`: modes may
    be changed to ones with a set-group-ID bit. Raises ValueError for a machine that is neither
    x86_64 nor aarch64."""
    machine = machine or os.uname().machine
    calls = _system_calls(machine)
    checked = calls["checked"]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        *_when_equal(_ARCHITECTURES[machine], [(_LOAD, 0, 0, _NUMBER)], [_answer(_KILL_PROCESS)]),
    ]
    if machine == "x86_64":
        code += [(_IF_AT_LEAST, 0, 1, _X32_BIT), _answer(_KILL_PROCESS)]
    code += _without_set_id(calls["mode"], group_bit=group_bit)
    refused = [calls["denied"], *([] if shared else [calls["shared"]])]
    refused += [] if _filter_follows_tracer() else [calls["tracing"]]
    for number in chain.from_iterable(names.values() for names in refused):
        code += _when_equal(number, [_answer(_ERRNO | errno.EPERM)])
    if not attributes:
        for number in calls["attribute"].values():
            code += _when_equal(number, [_answer(_ERRNO | errno.ENOTSUP)])
    for number in calls["absent"].values():
        code += _when_equal(number, [_answer(_ERRNO | errno.ENOSYS)])
    code += _when_equal(checked["clone"], _deny_bits(_NEW_NAMESPACES))
    code += _when_equal(checked["unshare"], _deny_bits(_NEW_NAMESPACES | _NEW_TIME_NAMESPACE))
    code += _when_equal(checked["personality"], _allow_only(_PERSONALITIES))
    code += _when_equal(checked["prlimit64"], _allow_only(_CALLER))
    settings = [] if attributes else _deny_file_settings()
    told = [_argument(1), *_deny(_TERMINAL_IOCTLS), *settings, _answer(_ALLOW)]
    code += _when_equal(checked["ioctl"], told)
    kind_of_socket = [_argument(1), (_AND, 0, 0, _SOCK_TYPE_MASK)]
    allowed = [*kind_of_socket, *_deny((_SOCK_RAW, _SOCK_PACKET)), *_allow_only(sorted(families))]
    code += _when_equal(checked["socket"], allowed)
    code += _when_equal(checked["socketpair"], _allow_only((AF_UNIX,)))
    code.append(_answer(_ALLOW))
    return _packed(code)


def asking_program(numbers: Collection[int]) -> bytes:
    """Return a `struct sock_filter[]` that asks its listener about these system calls, beside the
    filter above."""
    architecture = _ARCHITECTURES[os.uname().machine]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        *_when_equal(architecture, [(_LOAD, 0, 0, _NUMBER)], [_answer(_ALLOW)]),
    ]
    for number in numbers:
        code += _when_equal(number, [_answer(_ASK)])
    code.append(_answer(_ALLOW))
    return _packed(code)


def _packed(code: Iterable[_Instruction]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _filter_follows_tracer() -> bool:
    """Return whether the kernel asks the filter about what a tracer made of a call."""
    found = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return found is not None and (int(found[1]), int(found[2])) >= (4, 8)


@cache
def _system_calls(machine: str) -> dict[str, dict[str, int]]:
    """Return the number of each system call, by what the filter does with it and by name."""
    column = list(_ARCHITECTURES).index(machine)
    calls: dict[str, dict[str, int]] = {}
    for line in _SYSTEM_CALLS.read_text(encoding="ascii").splitlines():
        if line and not line.startswith("#"):
            kind, name, *numbers = line.split()
            if numbers[column] != "-":
                calls.setdefault(kind, {})[name] = int(numbers[column])
    return calls


def _without_set_id(calls: Mapping[str, int], *, group_bit: bool) -> list[_Instruction]:
    """Opening files comes first, because it happens most often."""
    changed = _SET_USER_ID if group_bit else _SET_USER_ID | _SET_GROUP_ID
    checks = [(name, argument, _SET_USER_ID | _SET_GROUP_ID) for name, argument in _CREATES.items()]
    checks += [(name, argument, changed) for name, argument in _CHANGES.items()]
    code: list[_Instruction] = []
    for name, argument, bits in checks:
        then = _deny_bits(bits, argument)
        if name in _FLAGS:
            is_new = (_IF_ANY_BIT, 1, 0, _NEW_FILE)
            then = [_argument(_FLAGS[name]), is_new, _answer(_ALLOW), *then]
        code += _when_equal(calls[name], then) if name in calls else []
    return code


def seccomp_installer(program: bytes) -> Callable[[], None]:
    """Return a function that puts the filter in force for the calling thread; create it before a
    fork. The function also sets no_new_privs, and raises OSError."""
    libc = c_library()
    instructions = ctypes.create_string_buffer(program, len(program))
    address = ctypes.addressof(instructions)
    header = struct.pack("@HP", len(program) // 8, address)

    def install() -> None:
        set_no_new_privileges(libc)
        # The instructions must live as long as the call that reads them.
        if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) or not instructions:
            raise OSError(ctypes.get_errno(), "the kernel refused the system call filter")

    return install


def c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def set_no_new_privileges(libc: ctypes.CDLL) -> None:
    """Keep programs from gaining rights by setuid from here on. Raises OSError."""
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel refused no_new_privs")


def _answer(verdict: int) -> _Instruction:
    return _RETURN, 0, 0, verdict


def _argument(index: int) -> _Instruction:
    """Load the low half of an argument, which comes first on these machines. All arguments that we
    check are 32 bits wide."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * index


def _when_equal(
    value: int, then: Sequence[_Instruction], otherwise: Sequence[_Instruction] = ()
) -> list[_Instruction]:
    """`then` must return from the filter, unless `otherwise` is empty or returns from it."""
    if otherwise:
        return [(_IF_EQUAL, len(otherwise), 0, value), *otherwise, *then]
    return [(_IF_EQUAL, 0, len(then), value), *then]


def _deny_bits(mask: int, argument: int = 0) -> list[_Instruction]:
    denied, allowed = _answer(_ERRNO | errno.EPERM), _answer(_ALLOW)
    return [_argument(argument), (_IF_ANY_BIT, 0, 1, mask), denied, allowed]


def _allow_only(values: Sequence[int]) -> list[_Instruction]:
    code = [_argument(0)]
    for value in values:
        code += _when_equal(value, [_answer(_ALLOW)])
    return [*code, _answer(_ERRNO | errno.EPERM)]


def _deny_file_settings() -> list[_Instruction]:
    """Go on if what is loaded now is the number of an ioctl that sets nothing."""
    code: list[_Instruction] = []
    for value in _HARMLESS_IOCTLS:
        code += _when_equal(value, [_answer(_ALLOW)])
    return [*code, (_AND, 0, 0, _KIND_OF_IOCTL), *_deny(_IOCTLS_OF_FILES)]


def _deny(values: Sequence[int]) -> list[_Instruction]:
    """Deny what is loaded now if it is one of these; go on otherwise."""
    return [
        instruction
        for value in values
        for instruction in _when_equal(value, [_answer(_ERRNO | errno.EPERM)])
    ]


PROCESSES = 4096
"""How many processes may be started in addition to the running ones, counting threads."""
FILE_BYTES = 16 << 30
"""Largest size of a file."""


def limits_installer(*, new_privileges: bool) -> Callable[[], None]:
    """Return a function that sets the limits for the calling process; create it before a fork."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: FILE_BYTES}
    if (running := _tasks()) is not None:
        limits[resource.RLIMIT_NPROC] = running + PROCESSES
    lowered = [(kind, _lowered(kind, value)) for kind, value in limits.items()]
    libc = None if new_privileges or os.uname().sysname != "Linux" else c_library()

    def install() -> None:
        for kind, limit in lowered:
            resource.setrlimit(kind, (limit, limit))
        if libc is not None:
            set_no_new_privileges(libc)

    return install


def _lowered(kind: int, value: int) -> int:
    soft, hard = resource.getrlimit(kind)
    known = [limit for limit in (soft, hard, value) if limit != resource.RLIM_INFINITY]
    return min(known)


def _tasks() -> int | None:
    """Return the number of threads of all processes, which is at least the user's; None if /proc
    does not say. Counting only the user's means inspecting each process: up to 20 ms."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None
