"""A filter of system calls, as a classic BPF program: what no command needs and an attack might.

The numbers are those of the kernel's headers (asm/unistd_64.h, asm-generic/unistd.h).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Collection, Sequence

AF_UNIX, AF_INET, AF_INET6 = 1, 2, 10

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_COLUMN = {"x86_64": 0, "aarch64": 1}
_X32_BIT = 0x40000000

_DENIED = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "setns": (308, 268),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "delete_module": (176, 106),
    "finit_module": (313, 273),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
}
_SHARED = {
    "shmget": (29, 194),
    "shmctl": (31, 195),
    "shmat": (30, 196),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
"""Memory, semaphores and queues that all programs of the machine have in common, where no IPC
namespace keeps them apart."""
_ABSENT = {
    "clone3": (435, 435),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
}
"""Answered as if the kernel did not have them, so that programs fall back on what they did before:
for clone3 on clone, whose flags a filter can see."""
_CLONE, _UNSHARE = (56, 220), (272, 97)
_SOCKET, _SOCKETPAIR = (41, 198), (53, 199)
_PERSONALITY = (135, 92)
_PRLIMIT = (302, 261)
_IOCTL = (16, 29)

_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""
_NEW_TIME_NAMESPACE = 0x80
_PERSONALITIES = (0, 0xFFFFFFFF)
_CALLER = (0,)
"""The process whose limits are set: others of the same user, the agent too, are none of its."""
_TERMINAL_IOCTLS = (0x5412, 0x541C)
"""TIOCSTI types at the terminal, TIOCLINUX pastes there."""
_SOCK_RAW, _SOCK_PACKET, _SOCK_TYPE_MASK = 3, 10, 0xF

_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT = 0x15, 0x35, 0x45
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 38, 22, 2

_Instruction = tuple[int, int, int, int]
"""Code, how many instructions to skip if true, if false, operand."""


def seccomp_known() -> bool:
    """Whether the numbers of this machine's system calls are known here."""
    return os.uname().machine in _ARCHITECTURES


def seccomp_program(
    families: Collection[int], *, shared: bool, machine: str | None = None
) -> bytes:
    """`struct sock_filter[]` that lets sockets of `families` be made, never raw ones. `shared`: the
    memory and queues that programs share are those of a namespace of its own. Raises KeyError for
    a machine that is neither x86_64 nor aarch64."""
    machine = machine or os.uname().machine
    column = _COLUMN[machine]
    code = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        *_when_equal(_ARCHITECTURES[machine], [(_LOAD, 0, 0, _NUMBER)], [_answer(_KILL_PROCESS)]),
    ]
    if machine == "x86_64":
        code += [(_IF_AT_LEAST, 0, 1, _X32_BIT), _answer(_KILL_PROCESS)]
    for numbers in (_DENIED if shared else _DENIED | _SHARED).values():
        code += _when_equal(numbers[column], [_answer(_ERRNO | errno.EPERM)])
    for numbers in _ABSENT.values():
        code += _when_equal(numbers[column], [_answer(_ERRNO | errno.ENOSYS)])
    code += _when_equal(_CLONE[column], _deny_bits(_NEW_NAMESPACES))
    code += _when_equal(_UNSHARE[column], _deny_bits(_NEW_NAMESPACES | _NEW_TIME_NAMESPACE))
    code += _when_equal(_PERSONALITY[column], _allow_only(_PERSONALITIES))
    code += _when_equal(_PRLIMIT[column], _allow_only(_CALLER))
    code += _when_equal(_IOCTL[column], _deny(1, _TERMINAL_IOCTLS))
    code += _when_equal(_SOCKET[column], [*_deny_raw(), *_allow_only(sorted(families))])
    code += _when_equal(_SOCKETPAIR[column], _allow_only((AF_UNIX,)))
    code.append(_answer(_ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def seccomp_installer(program: bytes) -> Callable[[], None]:
    """What puts the program in force for the calling thread; to be made before a fork. It sets
    no_new_privs too, and raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    instructions = ctypes.create_string_buffer(program, len(program))
    address = ctypes.addressof(instructions)
    header = struct.pack("@HP", len(program) // 8, address)

    def install() -> None:
        set_no_new_privileges(libc)
        # The instructions must live as long as the call that reads them.
        if libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) or not instructions:
            raise OSError(ctypes.get_errno(), "the filter of system calls was refused")

    return install


def set_no_new_privileges(libc: ctypes.CDLL) -> None:
    """No program gains rights by being setuid from here on; raises OSError."""
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "no_new_privs was refused")


def _answer(verdict: int) -> _Instruction:
    return _RETURN, 0, 0, verdict


def _argument(index: int) -> _Instruction:
    """Its low half, on machines that put this first; all that are checked are 32 bits wide."""
    return _LOAD, 0, 0, _ARGUMENTS + 8 * index


def _when_equal(
    value: int, then: Sequence[_Instruction], otherwise: Sequence[_Instruction] = ()
) -> list[_Instruction]:
    """`then` must return from the filter unless `otherwise` is empty or does so."""
    if otherwise:
        return [(_IF_EQUAL, len(otherwise), 0, value), *otherwise, *then]
    return [(_IF_EQUAL, 0, len(then), value), *then]


def _deny_bits(mask: int) -> list[_Instruction]:
    denied, allowed = _answer(_ERRNO | errno.EPERM), _answer(_ALLOW)
    return [_argument(0), (_IF_ANY_BIT, 0, 1, mask), denied, allowed]


def _allow_only(values: Sequence[int]) -> list[_Instruction]:
    code = [_argument(0)]
    for value in values:
        code += _when_equal(value, [_answer(_ALLOW)])
    return [*code, _answer(_ERRNO | errno.EPERM)]


def _deny(argument: int, values: Sequence[int]) -> list[_Instruction]:
    code = [_argument(argument)]
    for value in values:
        code += _when_equal(value, [_answer(_ERRNO | errno.EPERM)])
    return [*code, _answer(_ALLOW)]


def _deny_raw() -> list[_Instruction]:
    code: list[_Instruction] = [_argument(1), (_AND, 0, 0, _SOCK_TYPE_MASK)]
    for value in (_SOCK_RAW, _SOCK_PACKET):
        code += _when_equal(value, [_answer(_ERRNO | errno.EPERM)])
    return code
