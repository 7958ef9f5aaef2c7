"""A command of the person's own, with the terminal: it is used as in any shell, and recorded."""

from __future__ import annotations

import fcntl
import os
import select
import signal
import termios
import time
import tty
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import pexpect

from agentcli.shell.output import clean
from agentcli.shell.terminal import other_end
from agentcli.system import processes

_MOST_BYTES = 10_000_000
_CHUNK = 65_536
_POLL_MS = 20
_MOST_UNREAD = 1_000
_DRAIN_S = 0.2
"""What a command leaves running in the background may write for ever."""
_SETTLE_MS = 20
_STDIN, _STDOUT = 0, 1


@dataclass(frozen=True)
class Ran:
    """`code` is 128 + signal for a command that was killed, `output` readable text of the first
    10 MB that the terminal showed, `unread` what was typed and the command did not read."""

    code: int
    output: str
    unread: str


def run_at_terminal(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: str,
    size: Callable[[], tuple[int, int]],
) -> Ran:
    """Stdin and stdout of this process are the terminal, `size` gives its columns and rows. Ends at
    the beginning of a row. Raises pexpect.ExceptionPexpect when the command can't be started."""
    columns, rows = size()
    program, *arguments = command
    child = pexpect.spawn(
        program, arguments, env=dict(environ), cwd=folder, dimensions=(rows, columns)
    )
    # Nothing is left to wait for when it is closed.
    child.ptyproc.delayafterclose = 0
    try:
        with _following_size(child, size), _raw(_STDIN):
            said, unread = _copied(child)
            if clean(said).rpartition("\n")[2]:
                os.write(_STDOUT, b"\r\n")
    finally:
        child.close()
    code = child.exitstatus if child.exitstatus is not None else 128 + (child.signalstatus or 0)
    return Ran(code, clean(said), clean(unread))


def _copied(child: pexpect.spawn) -> tuple[bytes, bytes]:
    """Pass on what is typed and shown, until the command ends; returns what it showed and what it
    left unread."""
    master = child.child_fd
    os.set_blocking(master, False)
    # Held open, so that what the command does not read is still there when it has ended.
    other = other_end(master)
    ended = processes.open_pidfd(child.pid)
    said, typed = bytearray(), bytearray()
    try:
        while child.isalive():
            wait = None if ended is not None and not typed else _POLL_MS
            ready = _ready([_STDIN, master, ended], wait)
            if master in ready:
                _show(master, said)
            if _STDIN in ready:
                data = os.read(_STDIN, _CHUNK)
                if not data:
                    # The terminal is gone; closing the command's own tells it.
                    break
                typed += data
            if typed and _unread_size(other) < _MOST_UNREAD:
                with suppress(BlockingIOError):
                    del typed[: os.write(master, typed[:_MOST_UNREAD])]
        unread = _unread(other) + typed.replace(b"\r", b"\n")
    finally:
        os.close(other)
        if ended is not None:
            os.close(ended)
    # Nobody but what runs in the background has it open now: there is an end to what can be read.
    until = time.monotonic() + _DRAIN_S
    while master in _ready([master], _SETTLE_MS) and time.monotonic() < until:
        if not _show(master, said):
            break
    return bytes(said), unread


def _ready(fds: Sequence[int | None], wait_ms: int | None) -> set[int]:
    """Those that can be read."""
    poll = select.poll()
    for fd in fds:
        if fd is not None:
            poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(wait_ms)}


def _unread_size(other: int) -> int:
    """Bytes that wait for the command to read them; a terminal drops what is more than 4,095."""
    size = array("i", [0])
    fcntl.ioctl(other, termios.FIONREAD, size)
    return size[0]


def _show(master: int, said: bytearray) -> bool:
    """False when nothing more can come."""
    try:
        data = os.read(master, _CHUNK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    said += data[: max(0, _MOST_BYTES - len(said))]
    while data:
        data = data[os.write(_STDOUT, data) :]
    return True


def _unread(other: int) -> bytes:
    """What was typed and nobody has read, the beginning of a line included."""
    modes = termios.tcgetattr(other)
    modes[3] &= ~(termios.ICANON | termios.ECHO)
    modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0
    termios.tcsetattr(other, termios.TCSANOW, modes)
    data = b""
    # More than the kernel's line buffer holds moves up behind what is read.
    while other in _ready([other], _SETTLE_MS if data else 0):
        data += os.read(other, _CHUNK)
    return data


@contextmanager
def _raw(fd: int) -> Iterator[None]:
    """Keys go to the command as they are; nothing that was typed before or after is dropped."""
    before = termios.tcgetattr(fd)
    tty.setraw(fd, termios.TCSANOW)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextmanager
def _following_size(child: pexpect.spawn, size: Callable[[], tuple[int, int]]) -> Iterator[None]:
    def follow(*_: object) -> None:
        columns, rows = size()
        child.setwinsize(rows, columns)

    before = signal.signal(signal.SIGWINCH, follow)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
