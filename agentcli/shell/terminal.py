"""One process on a pseudo-terminal, with pipes for our lines, its output and its reports.

Apart from `at_terminal`, only this module uses pexpect. The process reads our lines on its
descriptor 0, so nothing typed at the terminal is ever taken for one of them, or the reverse. Its
stdout and stderr are a pipe: programs write as they do to other programs, without colours and
columns; those that talk to a user find the terminal at /dev/tty.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import select
import signal
import termios
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.sandbox.selection import SpawnOptions
from agentcli.shell.output import replace_surrogates
from agentcli.system import processes
from agentcli.system.forks import PATIENCE_S as REAPER_PATIENCE_S
from agentcli.system.forks import reaper_installer
from agentcli.system.processes import ProcessHandle, ProcessStat
from agentcli.workspace.private import remove_tree

if TYPE_CHECKING:
    from agentcli.sandbox.loopback import HostPorts

ROWS, COLUMNS = 50, 100
_READ_SIZE = 65_536
_BATCH_SIZE = 262_144
_NO_PIDFD_POLL_S = 0.05
_DRAIN_S = 1.0
_LINE_PATIENCE_S = 2.0
_END_PATIENCE_S = 1.0
_KILL, _WAKE = b"x", b"w"
"""Requests of other threads to the waiting one."""


class Terminal:
    """`folder` holds the pipes and whatever the owner puts there; `close` removes it."""

    def __init__(
        self, options: SpawnOptions, command: Sequence[str], *, folder: Path, env: Mapping[str, str]
    ) -> None:
        """Start `command` as `options` say. Raises OSError if it can't be started."""
        self.folder = folder
        self.ports: HostPorts | None = None
        """Ports of the machine's loopback that its process can reach; closed with it."""
        self.report_path = folder / "report"
        self.output_path = folder / "output"
        lines_path = folder / "lines"
        for path in (self.report_path, self.output_path, lines_path):
            os.mkfifo(path, 0o600)
        # Opened in both directions, so that opening never blocks and there is never an end of file.
        self._reports = os.open(self.report_path, os.O_RDWR | os.O_NONBLOCK)
        self._lines = os.open(lines_path, os.O_RDWR | os.O_NONBLOCK)
        # Output does have an end: when all who could write it are gone.
        self._output = os.open(self.output_path, os.O_RDONLY | os.O_NONBLOCK)
        stay_behind = reaper_installer() if options.reaper else None
        self._has_reaper = stay_behind is not None
        before = [step for step in (stay_behind, options.preexec) if step is not None]
        argv, environment = options.launch(command, env)
        streams = (lines_path, self.output_path)
        try:
            self._child = _spawn(
                argv, cwd=options.cwd, env=environment, streams=streams, before=before
            )
        except OSError:
            for descriptor in (self._reports, self._lines, self._output):
                os.close(descriptor)
            remove_tree(folder)
            raise
        self._attend()

    def _attend(self) -> None:
        """Prepare to read what the process writes, and to type."""
        self.pid: int = self._child.pid
        """The pid of the started process, which leads the terminal's session and is above all
        others."""
        self._master: int = self._child.child_fd
        self._typed = bytearray()
        self._used_keyboard = False
        # A terminal that nobody has open hangs up, and the process may not have opened it yet.
        self._held: int | None = other_end(self._master)
        self._open = {self._master, self._output}
        self.ended = False
        """The process is known to have ended; what it wrote before may still be unread."""
        os.set_blocking(self._master, False)
        self._modes = _plain_modes(self._master)
        self._poll = select.poll()
        self.woken = False
        """`wake` was called to get the attention of whoever waits for the process."""
        self._requests, self._requester = os.pipe()
        os.set_blocking(self._requests, False)
        for descriptor in (self._output, self._master, self._reports, self._requests):
            self._poll.register(descriptor, select.POLLIN)
        self._pidfd = processes.open_pidfd(self.pid)
        if self._pidfd is not None:
            self._poll.register(self._pidfd, select.POLLIN)

    @property
    def alive(self) -> bool:
        return bool(self._child.isalive())

    @property
    def exit_code(self) -> int:
        """The code of an ended process as a shell would give it; 128 + signal if it was killed."""
        if self._child.signalstatus is not None:
            return 128 + int(self._child.signalstatus)
        return int(self._child.exitstatus or 0)

    def send_line(self, line: bytes) -> None:
        """Send a line; kill the process if it takes no more, as when a command has filled the
        pipe."""
        data = line + b"\n"
        while data:
            try:
                data = data[os.write(self._lines, data) :]
            except BlockingIOError:
                room = select.poll()
                room.register(self._lines, select.POLLOUT)
                if not room.poll(_LINE_PATIENCE_S * 1000):
                    self.kill()
                    return

    def type(self, data: bytes) -> None:
        """Type as if at the keyboard, as fast as the other side takes it."""
        self._used_keyboard = True
        self._typed += data
        self._flush_typed()

    def foreground(self) -> int | None:
        """Return the process group that ^C would reach; None once the terminal is nobody's."""
        try:
            return os.tcgetpgrp(self._master) or None
        except OSError:
            return None

    def foreground_processes(self) -> list[ProcessStat]:
        group = self.foreground()
        return [] if group is None or not self.alive else processes.group_members(group, self.pid)

    def foreground_leader(self) -> ProcessHandle | None:
        group = self.foreground()
        found = processes.process_stat(group) if group is not None else None
        return ProcessHandle(found) if found is not None and found.session == self.pid else None

    def reset_modes(self) -> None:
        """Undo what commands did to the terminal, and discard unread input."""
        try:
            if self._used_keyboard or termios.tcgetattr(self._master) != self._modes:
                termios.tcsetattr(self._master, termios.TCSAFLUSH, self._modes)
        except termios.error as error:
            if error.args[0] != errno.EIO:
                raise
        self._used_keyboard = False
        self._typed.clear()

    def interrupt_key(self) -> None:
        """Type ^C for a program that takes it as a character.

        Do nothing where the key would raise a signal; callers send that instead. The key would act
        at some later moment, when another command may be in the foreground.
        """
        if not self._local_modes() & termios.ISIG:
            self.type(b"\x03")

    @property
    def is_canonical(self) -> bool:
        """Whether the terminal hands out whole lines (then at most 4095 bytes each)."""
        return bool(self._local_modes() & termios.ICANON)

    def pump(self, timeout: float | None) -> tuple[bytes, bytes, bytes]:
        """Wait at most `timeout` seconds for something; return (output, what was written to the
        terminal, reports).

        All are empty after a timeout and when the process has ended.
        """
        if self._pidfd is None:
            timeout = _NO_PIDFD_POLL_S if timeout is None else min(timeout, _NO_PIDFD_POLL_S)
            self.ended = not self.alive
        read: dict[int, bytes] = {}
        for descriptor, _ in self._poll.poll(None if timeout is None else max(0, timeout) * 1000):
            if descriptor == self._requests:
                self._heed_requests()
            elif descriptor == self._pidfd:
                self.ended = True
            else:
                read[descriptor] = self._drain(descriptor)
        self._flush_typed()
        output, on_terminal = read.get(self._output, b""), read.get(self._master, b"")
        return output, on_terminal, read.get(self._reports, b"")

    def drain_after_exit(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield what an ended process left in its output and on the terminal."""
        self._let_go()
        deadline = time.monotonic() + _DRAIN_S
        while self._open and time.monotonic() < deadline:
            waiting = select.poll()
            for descriptor in self._open:
                waiting.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in waiting.poll(_DRAIN_S * 200)}
            if not ready:
                return
            read = {descriptor: self._drain(descriptor) for descriptor in ready}
            yield read.get(self._output, b""), read.get(self._master, b"")

    def idle(self, pid: int) -> bool:
        """Whether `pid` is known to be waiting for our next line."""
        return processes.reads_stdin(pid, os.fstat(self._lines))

    def signal_foreground(self, signum: signal.Signals) -> None:
        group = self.foreground()
        # Until the leader is reaped, no other session can have the number of this one.
        if group is not None and self.alive:
            processes.send_group(group, self.pid, signum)

    def kill(self) -> None:
        """End the process and the foreground command, without waiting for them."""
        if not self.alive:
            return
        if self._has_reaper:
            os.kill(self.pid, signal.SIGTERM)
        else:
            self.signal_foreground(signal.SIGKILL)
            os.kill(self.pid, signal.SIGKILL)

    def kill_soon(self) -> None:
        """Make whoever waits for the process kill it. Callable from any thread."""
        self._request(_KILL)

    def wake(self) -> None:
        """End the current or next wait of those that heed it. Callable from any thread."""
        self._request(_WAKE)

    def forget_wakes(self) -> None:
        """Discard wakes that came too late for what they were meant for."""
        self._heed_requests()
        self.woken = False

    def _request(self, what: bytes) -> None:
        with contextlib.suppress(OSError):
            os.write(self._requester, what)

    def _heed_requests(self) -> None:
        with contextlib.suppress(BlockingIOError):
            asked = os.read(self._requests, _READ_SIZE)
            self.woken = self.woken or _WAKE in asked
            if _KILL in asked:
                self.kill()

    def close(self) -> None:
        """Kill the process and remove its folder."""
        if self.ports is not None:
            self.ports.close()
        self.kill()
        self.reap()
        self._let_go()
        requester, self._requester = self._requester, -1
        own = (self._reports, self._lines, self._output, self._pidfd, self._requests, requester)
        for descriptor in own:
            if descriptor is not None:
                os.close(descriptor)
        self._child.close()
        remove_tree(self.folder)

    def reap(self) -> None:
        """Wait for a killed process, so that its exit code is known."""
        self._await_end(_END_PATIENCE_S + (REAPER_PATIENCE_S if self._has_reaper else 0))
        if self.alive:
            processes.send(processes.descendants(self.pid), signal.SIGKILL)
            os.kill(self.pid, signal.SIGKILL)
            self._await_end(_END_PATIENCE_S)

    def _await_end(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        waiting = select.poll()
        if self._pidfd is not None:
            waiting.register(self._pidfd, select.POLLIN)
        while self.alive and (left := deadline - time.monotonic()) > 0:
            waiting.poll(1000 * (left if self._pidfd is not None else _NO_PIDFD_POLL_S))

    def _drain(self, descriptor: int) -> bytes:
        """Combine many small reads into one batch, which has an end although whoever writes may
        never stop; a terminal hands out 4 kB at most."""
        parts: list[bytes] = []
        size = 0
        while size < _BATCH_SIZE:
            try:
                data = os.read(descriptor, _READ_SIZE)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                data = b""
            if not data:
                self._hang_up(descriptor)
                break
            parts.append(data)
            size += len(data)
        return b"".join(parts)

    def _local_modes(self) -> int:
        """Return the local modes, or the usual ones if the terminal has hung up."""
        with contextlib.suppress(termios.error):
            local_modes: int = termios.tcgetattr(self._master)[3]
            return local_modes
        return termios.ICANON | termios.ISIG

    def _let_go(self) -> None:
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def _hang_up(self, descriptor: int) -> None:
        if descriptor in self._open:
            self._open.remove(descriptor)
            self._poll.unregister(descriptor)

    def _flush_typed(self) -> None:
        if self._master not in self._open:
            self._typed.clear()
        if not self._typed:
            return
        with contextlib.suppress(BlockingIOError):
            sent = os.write(self._master, self._typed[:1024])
            del self._typed[:sent]
        wanted = select.POLLIN | (select.POLLOUT if self._typed else 0)
        self._poll.modify(self._master, wanted)


def typed(text: str) -> bytes:
    """Return what the keys would send: Enter after text, nothing after a control character."""
    data = replace_surrogates(text).encode()
    lone_control = len(data) == 1 and data < b" "
    return data if lone_control or data.endswith(b"\n") else data + b"\n"


def _spawn(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    streams: tuple[Path, Path],
    before: Sequence[Callable[[], None]],
) -> Any:
    """Start the process; `streams` are the pipes that it reads from and writes to."""
    import pexpect

    def prepare() -> None:
        source, target = os.open(streams[0], os.O_RDONLY), os.open(streams[1], os.O_WRONLY)
        for place, descriptor in enumerate((source, target, target)):
            os.dup2(descriptor, place)
        for descriptor in (source, target):
            if descriptor > 2:
                os.close(descriptor)
        for step in before:
            step()

    try:
        child = pexpect.spawn(
            argv[0],
            list(argv[1:]),
            cwd=cwd,
            env=dict(env),
            echo=False,
            timeout=None,
            dimensions=(ROWS, COLUMNS),
            preexec_fn=prepare,
        )
    except pexpect.ExceptionPexpect as error:
        raise OSError(f"cannot start {argv[0]}: {error}") from error
    # pexpect sleeps this long before closing; by then the process is killed and reaped.
    child.delayafterclose = child.ptyproc.delayafterclose = 0
    child.delayafterterminate = child.ptyproc.delayafterterminate = 0
    return child


def other_end(master: int) -> int:
    """Open the end of a pseudo-terminal that programs use; `master` is the emulator's end."""
    name = ctypes.CDLL(None).ptsname
    name.restype = ctypes.c_char_p
    return os.open(name(master), os.O_RDWR | os.O_NOCTTY)


def _plain_modes(master: int) -> list[Any]:
    """Turn off output processing, so that newlines arrive as written, and faster."""
    modes = termios.tcgetattr(master)
    modes[1] &= ~termios.OPOST
    modes[3] &= ~(termios.ECHO | termios.ECHOCTL)
    termios.tcsetattr(master, termios.TCSANOW, modes)
    return termios.tcgetattr(master)
