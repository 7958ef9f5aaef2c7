"""What the kernel reports about processes, and signals to our own.

A pid identifies a process only until it ends, and a contained command may lie about pids. So we
identify a process by pid and start time, look it up below a process that we started ourselves, and
signal it through a pidfd. Without /proc (macOS) nothing can be looked up; there a process counts as
ours by the session of its process group, which no process can choose.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

ENVIRONMENT_MARK = "AGENT_SHELL_ID"
"""Environment variable that marks processes as ours even after they have left their session."""
_READ_CALLS = {"x86_64": {0, 19}, "aarch64": {63, 65}}
_POLL_CALLS = {"x86_64": {7, 23, 232, 270, 271, 281, 441}, "aarch64": {22, 72, 73, 441}}
_PTS_MAJORS = range(136, 144)
_TTY_MAJOR = 5
_MAX_THREADS = 64
_LONGEST_NUMBER = 10
"""Most digits a pid can have."""
_KILL_ROUNDS = 8
_POLL_S = 0.005
_UNKNOWN = (FileNotFoundError, ProcessLookupError, NotADirectoryError, PermissionError)
"""Errors raised for a process that has ended or that we may not inspect."""


class TerminalWait(Enum):
    """Whether a process is waiting for someone to type."""

    NO = "no"
    YES = "yes"
    HIDDEN = "hidden"
    """A process belongs to another user (sudo), or the system does not say."""


@dataclass(frozen=True)
class ProcessStat:
    """`started` is in clock ticks since boot, or 0 if unknown. Together with the pid it identifies
    a process for good."""

    pid: int
    started: int
    state: str = field(compare=False)
    parent: int = field(compare=False)
    group: int = field(compare=False)
    session: int = field(compare=False)

    @property
    def over(self) -> bool:
        return self.state in "ZX"


class ProcessHandle:
    """One process, never confused with a later one that gets the same pid."""

    def __init__(self, process: ProcessStat) -> None:
        self.pid = process.pid
        self._process = process
        self._descriptor = open_pidfd(process.pid)
        # The descriptor refers to this process only if it is still there after the opening.
        self._gone = not is_running(process)

    @property
    def alive(self) -> bool:
        """False for zombies too, if the system can tell."""
        if self._gone:
            return False
        if self._descriptor is None:
            self._gone = not is_running(self._process)
        else:
            waiting = select.poll()
            waiting.register(self._descriptor, select.POLLIN)
            self._gone = bool(waiting.poll(0))
        return not self._gone

    def send(self, signum: signal.Signals) -> None:
        """Send a signal; do nothing if the process has ended or we may not signal it."""
        if not self.alive or self.pid in (0, 1, os.getpid()):
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._descriptor is None:
                os.kill(self.pid, signum)
            else:
                signal.pidfd_send_signal(self._descriptor, signum)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        self._gone = True
        if descriptor is not None:
            os.close(descriptor)


def open_pidfd(pid: int) -> int | None:
    """Return a pidfd, or None if the process has ended or the system has no pidfds."""
    if not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def is_running(process: ProcessStat) -> bool:
    """Return whether that same process is still running."""
    found = process_stat(process.pid)
    return found is not None and found == process and not found.over


def _read(path: str) -> bytes | None:
    """Return the content of the file, or None if the process has ended or we may not inspect
    it."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except _UNKNOWN:
        return None


def _numbers(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208 - speed
    except _UNKNOWN:
        return []


def process_stat(pid: int) -> ProcessStat | None:
    """Return None if the process has ended."""
    data = _read(f"/proc/{pid}/stat")
    if data is None and _has_proc():
        return None
    if data is None:
        try:
            group, session = os.getpgid(pid), os.getsid(pid)
        except OSError:
            return None
        return ProcessStat(pid, started=0, state="", parent=0, group=group, session=session)
    # The command name in parentheses may itself hold spaces and parentheses.
    fields = data[data.rindex(b")") + 2 :].split()
    return ProcessStat(
        pid=pid,
        started=int(fields[19]),
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
    )


def _has_proc() -> bool:
    return os.path.exists("/proc/self/stat")  # noqa: PTH110


def all_processes() -> Iterator[ProcessStat]:
    for pid in _numbers("/proc"):
        if found := process_stat(pid):
            yield found


def group_members(group: int, session: int) -> list[ProcessStat]:
    """Return the living processes of `group`, if it belongs to `session`. A process is born into a
    session or starts its own; it can't choose another."""
    found = (p for p in all_processes() if p.group == group and p.session == session)
    return [process for process in found if not process.over]


def has_handler(pid: int, signum: int) -> bool:
    """Return whether `pid` has a handler for the signal; False if the system does not say."""
    caught = _status(pid, b"SigCgt")
    return bool(caught) and bool(int(caught[0], 16) >> (signum - 1) & 1)


def command_line(pid: int) -> str:
    """Return the command line as one would type it, with only the program's name, not its path."""
    words = (_read(f"/proc/{pid}/cmdline") or b"").rstrip(b"\0").split(b"\0")
    words[0] = words[0].rpartition(b"/")[2]
    return shlex.join(word.decode("utf-8", "replace") for word in words)


def pipe_readers(found: Collection[ProcessStat]) -> set[ProcessStat]:
    """Return those in `found` whose stdin is a pipe from another's stdout or stderr."""
    pipes: dict[ProcessStat, list[int]] = {}
    for each in found:
        streams = [_descriptor_stat(each.pid, descriptor) for descriptor in range(3)]
        pipes[each] = [
            s.st_ino if s is not None and stat.S_ISFIFO(s.st_mode) else 0 for s in streams
        ]
    return {
        each
        for each, (source, _, _) in pipes.items()
        if source and any(source in rest for other, (_, *rest) in pipes.items() if other != each)
    }


def _descriptor_stat(pid: int, descriptor: int) -> os.stat_result | None:
    """Return what the descriptor of a process is; None if that can't be told."""
    try:
        return os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116 - follows the magic link
    except _UNKNOWN:
        return None


def ticks_now() -> int:
    """Return the current time of the clock that `ProcessStat.started` uses, in ticks."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return int(time.clock_gettime(clock) * os.sysconf("SC_CLK_TCK"))


def children(pid: int, *, since: int) -> list[ProcessStat]:
    """Return the living children of `pid` that started at `since` (in ticks) or later."""
    found = (p for p in all_processes() if p.parent == pid and p.started >= since)
    return [process for process in found if not process.over]


def descendants(*roots: int) -> list[ProcessStat]:
    """Return all descendants of `roots`, without the roots, parents first."""
    below: dict[int, list[ProcessStat]] = {}
    for process in all_processes():
        below.setdefault(process.parent, []).append(process)
    found = {child for root in roots for child in below.get(root, ())}
    ordered = list(found)
    for parent in ordered:
        new = [child for child in below.get(parent.pid, ()) if child not in found]
        found.update(new)
        ordered += new
    return ordered


def find_descendant(claimed_pid: bytes, root: int) -> ProcessStat | None:
    """Return the process below `root` that calls itself `claimed_pid`, a pid in decimal digits, in
    our PID namespace or its own; None if there is none. Without /proc: a process in the session
    that `root` leads."""
    if not (claimed_pid.isdigit() and len(claimed_pid) <= _LONGEST_NUMBER):
        return None
    number = int(claimed_pid)
    if not _has_proc():
        found = process_stat(number) if number > 1 else None
        return found if found and found.session == root != os.getsid(0) else None
    for process in descendants(root):
        inner = _status(process.pid, b"NSpid")
        if (int(inner[-1]) if inner else process.pid) == number:
            return process
    return None


def _status(pid: int, name: bytes) -> list[bytes]:
    """Return the words of one line of the process's status; none if the system does not say."""
    _, _, rest = (_read(f"/proc/{pid}/status") or b"").partition(b"\n%b:" % name)
    return rest.partition(b"\n")[0].split()


def with_environment(entry: str) -> list[ProcessStat]:
    """Return the processes started with `entry` ("NAME=value") in their environment."""
    found = []
    for pid in _numbers("/proc"):
        # Checked before and after, because the pid may be reused in between.
        process = process_stat(pid) if _has_environment(pid, entry) else None
        if process and _has_environment(pid, entry):
            found.append(process)
    return found


def _has_environment(pid: int, entry: str) -> bool:
    environment = _read(f"/proc/{pid}/environ")
    return environment is not None and b"\0%b\0" % entry.encode() in b"\0%b\0" % environment


def send(processes: Iterable[ProcessStat], signum: signal.Signals) -> None:
    """Signal each process that is still running and ours to signal."""
    for process in processes:
        handle = ProcessHandle(process)
        handle.send(signum)
        handle.close()


def send_group(group: int, session: int, signum: signal.Signals) -> None:
    """Signal the members of `group`, if it belongs to `session`."""
    if _has_proc():
        send(group_members(group, session), signum)
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if group > 1 and os.getsid(group) == session != os.getsid(0):
            os.killpg(group, signum)


def end_tree(root: ProcessStat, ladder: Sequence[tuple[signal.Signals, float]]) -> signal.Signals:
    """Signal `root` and all its descendants with each signal of `ladder`, waiting at most so many
    seconds for them to end each time. Processes started meanwhile get the signal too. Returns the
    last signal sent.
    """
    sent = ladder[-1][0]
    family = {root}
    for signum, patience in ladder:
        signalled: set[ProcessStat] = set()
        deadline = time.monotonic() + patience
        while left := _left_of(family):
            family |= left
            if new := left - signalled:
                sent = signum
                if _has_proc():
                    send(new, signum)
                else:
                    send_group(root.group, root.session, signum)
                signalled |= new
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_S)
    return sent


def await_end(processes: Collection[ProcessStat], seconds: float) -> None:
    """Wait until all these processes have ended, at most so many seconds."""
    deadline = time.monotonic() + seconds
    while any(map(is_running, processes)) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _left_of(family: set[ProcessStat]) -> set[ProcessStat]:
    """Return the processes of the family still alive, with all their descendants."""
    left = {process for process in family if is_running(process)}
    below = descendants(*(process.pid for process in left)) if left else []
    return left | {process for process in below if not process.over}


def kill_marked(entry: str) -> None:
    """SIGKILL all `marked` processes except ourselves and our ancestors, repeatedly, because they
    may fork meanwhile."""
    spared = _self_and_ancestors()
    killed: set[ProcessStat] = set()
    for _ in range(_KILL_ROUNDS):
        found = [p for p in with_environment(entry) if p not in killed and p.pid not in spared]
        if not found:
            break
        send(found, signal.SIGKILL)
        killed.update(found)


def _self_and_ancestors() -> set[int]:
    """Return the pids of our process and its ancestors."""
    line = {0, 1}
    pid = os.getpid()
    while pid not in line and (found := process_stat(pid)):
        line.add(pid)
        pid = found.parent
    return line


def waits_for_terminal(processes: Iterable[ProcessStat], *, polling_counts: bool) -> TerminalWait:
    """Return whether one of `processes` is blocked reading from a terminal.

    `polling_counts`: also count a process that polls and has a terminal as stdin, which is likely
    waiting for it, but not proven to be.
    """
    machine = os.uname().machine
    if machine not in _READ_CALLS or not os.path.exists("/proc/self/syscall"):  # noqa: PTH110
        return TerminalWait.HIDDEN
    verdict = TerminalWait.NO
    for process in processes:
        calls = list(_blocked_calls(process.pid))
        if not calls:
            verdict = TerminalWait.HIDDEN
        for number, descriptor in calls:
            if number in _READ_CALLS[machine] and _is_terminal(process.pid, descriptor):
                return TerminalWait.YES
            if polling_counts and number in _POLL_CALLS[machine] and _is_terminal(process.pid, 0):
                return TerminalWait.YES
    return verdict


def reads_stdin(pid: int, source: os.stat_result) -> bool:
    """Return whether `pid` is blocked reading its stdin, and that is `source`; False if unknown."""
    reads = _READ_CALLS.get(os.uname().machine, set())
    if not any(number in reads and fd == 0 for number, fd in _blocked_calls(pid)):
        return False
    stdin = _descriptor_stat(pid, 0)
    return stdin is not None and os.path.samestat(stdin, source)


def _blocked_calls(pid: int) -> Iterator[tuple[int, int]]:
    """Yield (system call, first argument) for each thread; (-1, -1) for a running one."""
    for thread in _numbers(f"/proc/{pid}/task")[:_MAX_THREADS]:
        data = _read(f"/proc/{pid}/task/{thread}/syscall")
        if data is None:
            continue
        fields = data.split()
        if len(fields) > 1 and fields[0].isdigit():
            yield int(fields[0]), int(fields[1], 16)
        else:
            yield -1, -1


def _is_terminal(pid: int, descriptor: int) -> bool:
    found = _descriptor_stat(pid, descriptor)
    if found is None or not stat.S_ISCHR(found.st_mode):
        return False
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return major in _PTS_MAJORS or (major == _TTY_MAJOR and minor == 0)
