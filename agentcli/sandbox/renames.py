"""Lets git finish writing a file that a mount protects: somebody outside is asked about it.

git writes `config.lock` and renames it to `config`, and the kernel refuses to replace a file that
is mounted. So a filter of system calls, beside that of the sandbox, hands each rename to a thread
of ours. It lets the kernel answer all but those of a lock file to the file of the same folder that
it locks. Nothing depends on it: what a mount protects stays protected if the filter is missing, and
commands have no other way to reach the thread than such a call.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import logging
import os
import re
import select
import socket
import struct
import threading
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from agentcli.sandbox.seccomp import asking_program, c_library

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
