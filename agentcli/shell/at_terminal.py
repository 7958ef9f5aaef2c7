"""Runs a user's own command on the terminal, as in any shell, and records it."""

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
"""Limit, because processes that a command leaves in the background may write for ever."""
_SETTLE_MS = 20
_STDIN, _STDOUT = 0, 1


@dataclass(frozen=True)
class TerminalRun:
    """`code` is 128 + signal if the command was killed. `output` is readable text of the first 10
    MB that the terminal showed, `unread` what was typed but not read by the command."""

    code: int
    output: str
    unread: str


def run_at_terminal(
    command: Sequence[str],
    environ: Mapping[str, str],
    folder: str,
    size: Callable[[], tuple[int, int]],
) -> TerminalRun:
    """Run `command`. Stdin and stdout of this process must be the terminal; `size` returns its
    columns and rows. The cursor ends at the start of a row. Raises pexpect.ExceptionPexpect when
    the command can't be started."""
    columns, rows = size()
    program, *arguments = command
    child = pexpect.spawn(
        program, arguments, env=dict(environ), cwd=folder, dimensions=(rows, columns)
    )
    # When it is closed, nothing is left to wait for.
    child.ptyproc.delayafterclose = 0
    try:
        with _following_size(child, size), _raw(_STDIN):
            said, unread = _copied(child)
            if clean(said).rpartition("\n")[2]:
                os.write(_STDOUT, b"\r\n")
    finally:
        child.close()
    code = child.exitstatus if child.exitstatus is not None else 128 + (child.signalstatus or 0)
    return TerminalRun(code, clean(said), clean(unread))


def _copied(child: pexpect.spawn) -> tuple[bytes, bytes]:
    """Relay what is typed and shown until the command ends; return what it showed and what it left
    unread."""
    master = child.child_fd
    os.set_blocking(master, False)
    # Held open, so that unread input is still there after the command has ended.
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
                    # The terminal is gone; the command learns that when its own is closed.
                    break
                typed += data
            if typed:
                # A terminal drops everything above 4,095 bytes that wait for the command.
                waiting = array("i", [0])
                fcntl.ioctl(other, termios.FIONREAD, waiting)
                if waiting[0] < _MOST_UNREAD:
                    with suppress(BlockingIOError):
                        del typed[: os.write(master, typed[:_MOST_UNREAD])]
        unread = _unread(other) + typed.replace(b"\r", b"\n")
    finally:
        os.close(other)
        if ended is not None:
            os.close(ended)
    # Only background processes still have the terminal open, so the output has an end.
    until = time.monotonic() + _DRAIN_S
    while master in _ready([master], _SETTLE_MS) and time.monotonic() < until:
        if not _show(master, said):
            break
    return bytes(said), unread


def _ready(fds: Sequence[int | None], wait_ms: int | None) -> set[int]:
    """Return the descriptors that are ready to read."""
    poll = select.poll()
    for fd in fds:
        if fd is not None:
            poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(wait_ms)}


def _show(master: int, said: bytearray) -> bool:
    """Show what the command wrote; return False when no more can come."""
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
    """Return what was typed and never read, including an unfinished line."""
    modes = termios.tcgetattr(other)
    modes[3] &= ~(termios.ICANON | termios.ECHO)
    modes[6][termios.VMIN] = modes[6][termios.VTIME] = 0
    termios.tcsetattr(other, termios.TCSANOW, modes)
    data = b""
    # Input beyond the kernel's line buffer moves up only as earlier input is read.
    while other in _ready([other], _SETTLE_MS if data else 0):
        data += os.read(other, _CHUNK)
    return data


@contextmanager
def _raw(fd: int) -> Iterator[None]:
    """Pass keys to the command unchanged; input typed before or after is not dropped."""
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
