"""Restricts a process before it starts a command, in any layer: resource limits, and a filter of
system calls, a classic BPF program built from the list in `system_calls.txt`.

`Renames` lets git finish writing a file that a mount protects: somebody outside is asked about it.
git writes `config.lock` and renames it to `config`, and the kernel refuses to replace a file that
is mounted. So another filter hands each rename to a thread of ours. It lets the kernel answer all
but those of a lock file to the file of the same folder that it locks. Nothing depends on it: what a
mount protects stays protected if the filter is missing, and commands have no other way to reach the
thread than such a call."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import os
import re
import resource
import select
import socket
import struct
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
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
    ioctl = [_argument(1), *_deny(_TERMINAL_IOCTLS), *settings, _answer(_ALLOW)]
    code += _when_equal(checked["ioctl"], ioctl)
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
    lowered = {}
    for kind, value in limits.items():
        known = (*resource.getrlimit(kind), value)
        lowered[kind] = min(limit for limit in known if limit != resource.RLIM_INFINITY)
    libc = None if new_privileges or os.uname().sysname != "Linux" else c_library()

    def install() -> None:
        for kind, limit in lowered.items():
            resource.setrlimit(kind, (limit, limit))
        if libc is not None:
            set_no_new_privileges(libc)

    return install


def _tasks() -> int | None:
    """Return the number of threads of all processes, which is at least the user's; None if /proc
    does not say. Counting only the user's means inspecting each process: up to 20 ms."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None


_SOCKET = "renames"
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_RENAMES = {
    "x86_64": {82: "rename", 264: "renameat", 316: "renameat2"},
    "aarch64": {38: "renameat", 276: "renameat2"},
}
_SET_FILTER, _NEW_LISTENER, _WAIT_KILLABLE = 1, 8, 32
_RECEIVE, _ANSWER = 0xC0502100, 0xC0182101
_CALL = struct.Struct("=QIIiIQ6Q")
_REPLY = struct.Struct("=QqiI")
_LET_KERNEL = 1
_OLDEST_KERNEL = (5, 5)
"""The first that knows _LET_KERNEL."""
_LOW_HALF, _CURRENT_FOLDER = 0xFFFFFFFF, 0xFFFFFF9C
_LONGEST_PATH = 4096
_HANDOVER_S = 1.0
_PAGE = 4096

Judge = Callable[[tuple[int, int], str], int | None]
"""Takes the identity of a folder and the name of the file in it that is to be replaced by its lock
file. Returns 0 if that is done, an error number to refuse it, None to let the kernel answer."""

log = logging.getLogger(__name__)


class Renames(threading.Thread):
    """Asks `judge` when commands rename the lock file of a file named in `names` to it. `folder` is
    private and out of the commands' reach."""

    def __init__(self, folder: Path, names: Collection[str], judge: Judge) -> None:
        """Raises OSError, also where the kernel can't be left to answer: all would hang."""
        found = re.match(r"(\d+)\.(\d+)", os.uname().release)
        if found is None or (int(found[1]), int(found[2])) < _OLDEST_KERNEL:
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        super().__init__(name="renames", daemon=True)
        self._folder = folder
        self._targets = {os.fsencode(name) for name in names}
        self._judge = judge
        self._server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (folder / _SOCKET).unlink(missing_ok=True)
        _by_handle(folder, self._server.bind)
        self._server.listen()
        self._poll = select.poll()
        self._poll.register(self._server, select.POLLIN)
        self._listeners: set[int] = set()
        self._ended = False
        self._first = threading.Lock()

    def installer(self) -> Callable[[], None]:
        """Return what a child must call, with no_new_privs set, before it starts a program whose
        renames are to be asked about; create it before the fork. It does nothing where the kernel
        has no such filter, or has one in force."""
        with self._first:
            if self.ident is None:
                self.start()
        libc = c_library()
        machine = os.uname().machine
        program = asking_program(_RENAMES[machine])
        instructions = ctypes.create_string_buffer(program, len(program))
        header = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
        number = _SECCOMP[machine]

        def install() -> None:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as there:
                _by_handle(self._folder, there.connect)
                for flags in (_NEW_LISTENER | _WAIT_KILLABLE, _NEW_LISTENER):
                    listener = libc.syscall(number, _SET_FILTER, flags, header)
                    # The instructions must live as long as the call that reads them.
                    if listener >= 0 and instructions:
                        socket.send_fds(there, [b"0"], [listener])
                        os.close(listener)
                        return

        return install

    def stop(self) -> None:
        """End, once the programs have ended: those that still run can rename nothing any more."""
        self._ended = True
        with suppress(OSError):
            # Whoever ends twice, as an interrupt may have it, has closed it.
            self._server.shutdown(socket.SHUT_RDWR)
        if self.is_alive():
            self.join()
        self._server.close()
        with suppress(OSError):
            # What ends the session on a broken disk is told, not this.
            (self._folder / _SOCKET).unlink()

    def run(self) -> None:
        try:
            while not self._ended:
                for descriptor, event in self._poll.poll():
                    if descriptor == self._server.fileno():
                        self._take_over()
                    elif event & select.POLLIN:
                        self._answer(descriptor)
                    else:
                        self._poll.unregister(descriptor)
                        self._listeners.remove(descriptor)
                        os.close(descriptor)
        finally:
            # Whoever waits for an answer must not wait for ever.
            for descriptor in self._listeners:
                os.close(descriptor)

    def _take_over(self) -> None:
        with suppress(OSError):
            there, _ = self._server.accept()
            with there:
                there.settimeout(_HANDOVER_S)
                _, found, _, _ = socket.recv_fds(there, 1, 1, socket.MSG_CMSG_CLOEXEC)
            for descriptor in found:
                self._listeners.add(descriptor)
                self._poll.register(descriptor, select.POLLIN)

    def _answer(self, listener: int) -> None:
        question = bytearray(_CALL.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, question)
        except OSError:
            # The caller was killed meanwhile.
            return
        number, process, _, call, _, _, *arguments = _CALL.unpack(question)
        verdict = None
        try:
            target = self._replaced(process, call, arguments)
            verdict = self._judge(*target) if target is not None else None
        except OSError as error:
            log.debug("a rename is left to the kernel: %s", error)
        except Exception:
            log.exception("a rename is left to the kernel")
        flags = _LET_KERNEL if verdict is None else 0
        with suppress(OSError):
            fcntl.ioctl(listener, _ANSWER, _REPLY.pack(number, 0, -(verdict or 0), flags))

    def _replaced(
        self, process: int, call: int, arguments: list[int]
    ) -> tuple[tuple[int, int], str] | None:
        """Return the folder and the name of what is to be replaced by its lock file; None if it is
        something else. The caller may change all of this meanwhile: what counts in the end is what
        the judge finds in that folder. Raises OSError."""
        kind = _RENAMES[os.uname().machine][call]
        first, second = arguments[:2]
        if kind != "rename":
            above, first, other, second, flags = arguments[:5]
            folders = {above & _LOW_HALF, other & _LOW_HALF}
            if folders != {_CURRENT_FOLDER} or (kind == "renameat2" and flags & _LOW_HALF):
                return None
        memory = os.open(f"/proc/{process}/mem", os.O_RDONLY | os.O_CLOEXEC)
        try:
            new = _text(memory, second)
            place, _, name = new.rpartition(b"/")
            if name not in self._targets or _text(memory, first) != new + b".lock":
                return None
        finally:
            os.close(memory)
        base = "root" if new.startswith(b"/") else "cwd"
        info = Path(f"/proc/{process}/{base}/{os.fsdecode(place)}").stat()
        return (info.st_dev, info.st_ino), os.fsdecode(name)


def _text(memory: int, address: int) -> bytes:
    """Return the text at an address of a process. Raises OSError."""
    text = b""
    while b"\0" not in text and len(text) <= _LONGEST_PATH:
        at = address + len(text)
        # What follows the end of a page may not be there.
        more = os.pread(memory, _PAGE - at % _PAGE, at)
        if not more:
            raise OSError(errno.EFAULT, os.strerror(errno.EFAULT))
        text += more
    return text.partition(b"\0")[0]


def _by_handle(folder: Path, use: Callable[[str], None]) -> None:
    """Use the path of the socket, which itself may be too long for an address. Raises OSError."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        use(f"/proc/self/fd/{handle}/{_SOCKET}")
    finally:
        os.close(handle)
