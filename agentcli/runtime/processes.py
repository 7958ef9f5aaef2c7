"""What /proc tells about processes. Without /proc (macOS) the answer is "nothing found"."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

ENVIRONMENT_MARK = "AGENT_SHELL_ID"
"""Variable by which processes that left their session are still known as ours."""
_READ_CALLS = {"x86_64": {0, 19}, "aarch64": {63, 65}}
_POLL_CALLS = {"x86_64": {7, 23, 232, 270, 271, 281, 441}, "aarch64": {22, 72, 73, 441}}
_PTS_MAJORS = range(136, 144)
_TTY_MAJOR = 5
_MAX_THREADS = 64
_GONE = (FileNotFoundError, ProcessLookupError, NotADirectoryError)


class TerminalWait(Enum):
    """Whether some process waits for someone to type."""

    NO = "no"
    YES = "yes"
    HIDDEN = "hidden"
    """A process belongs to another user (sudo), or the system does not tell."""


@dataclass(frozen=True)
class ProcessStat:
    pid: int
    state: str
    parent: int
    group: int
    session: int
    started: int
    """In clock ticks since boot: with the pid, it names a process for good."""


def _read(path: str) -> bytes | None:
    """The file, or None if the process has gone or is not ours to look at."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except (*_GONE, PermissionError):
        return None


def _numbers(folder: str) -> list[int]:
    try:
        return [int(name) for name in os.listdir(folder) if name.isdigit()]  # noqa: PTH208 - speed
    except (*_GONE, PermissionError):
        return []


def process_stat(pid: int) -> ProcessStat | None:
    data = _read(f"/proc/{pid}/stat")
    if data is None:
        return None
    # The command name in parentheses may itself hold spaces and parentheses.
    fields = data[data.rindex(b")") + 2 :].split()
    return ProcessStat(
        pid=pid,
        state=fields[0].decode(),
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
    )


def all_processes() -> Iterator[ProcessStat]:
    for pid in _numbers("/proc"):
        if found := process_stat(pid):
            yield found


def is_alive(pid: int) -> bool:
    """False for zombies too, where /proc tells."""
    found = process_stat(pid)
    if found is not None:
        return found.state not in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def members(group: int) -> list[int]:
    return [p.pid for p in all_processes() if p.group == group and p.state not in "ZX"]


def ticks_now() -> int:
    """The clock that `ProcessStat.started` is read from."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return int(time.clock_gettime(clock) * os.sysconf("SC_CLK_TCK"))


def children(pid: int, *, since: int) -> list[int]:
    """Living children of `pid` that were started at `since` (in ticks) or later."""
    return [
        p.pid
        for p in all_processes()
        if p.parent == pid and p.started >= since and p.state not in "ZX"
    ]


def descendants(pid: int) -> list[int]:
    """All children of children, `pid` itself excluded, parents first."""
    children: dict[int, list[int]] = {}
    for process in all_processes():
        children.setdefault(process.parent, []).append(process.pid)
    found = list(children.get(pid, ()))
    for child in found:
        found.extend(children.get(child, ()))
    return found


def marked(entry: str) -> list[int]:
    """Processes started with `entry` ("NAME=value") in their environment."""
    wanted = b"\0" + entry.encode() + b"\0"
    found = []
    for pid in _numbers("/proc"):
        environment = _read(f"/proc/{pid}/environ")
        if environment and wanted in b"\0" + environment + b"\0":
            found.append(pid)
    return found


def send(pids: Iterable[int], signum: signal.Signals) -> None:
    """Signals each process that is still there and ours."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signum)


def send_group(group: int, signum: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signum)


def send_tree(pid: int, signum: signal.Signals) -> list[int]:
    """Signals `pid`, all below it and, if it leads one, its group; returns whom it found."""
    targets = [*descendants(pid), pid]
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            send_group(pid, signum)
    send(targets, signum)
    return targets


def kill_marked(entry: str) -> int:
    """SIGKILLs all `marked` processes; repeats, because they may fork meanwhile."""
    killed: set[int] = set()
    for _ in range(8):
        found = [p for p in marked(entry) if p not in killed and p != os.getpid()]
        if not found:
            break
        send(found, signal.SIGKILL)
        killed.update(found)
    return len(killed)


def outer_pid(pid: int, companion: int) -> int:
    """Our number for `pid` as counted in the PID namespace that `companion` lives in."""
    namespace = _namespace(companion)
    if namespace is None or namespace == _namespace(os.getpid()):
        return pid
    for candidate in _numbers("/proc"):
        status = _read(f"/proc/{candidate}/status") or b""
        _, _, rest = status.partition(b"\nNSpid:")
        numbers = rest.partition(b"\n")[0].split()
        if len(numbers) > 1 and int(numbers[-1]) == pid and _namespace(candidate) == namespace:
            return candidate
    return pid


def _namespace(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115
    except (*_GONE, PermissionError):
        return None


def waits_for_terminal(group: int, *, polling_counts: bool) -> TerminalWait:
    """Whether a member of `group` is blocked in a read of a terminal.

    `polling_counts`: also take a poll by a process whose stdin is a terminal for waiting, which
    is likely but not proven.
    """
    machine = os.uname().machine
    if machine not in _READ_CALLS or not os.path.exists("/proc/self/syscall"):  # noqa: PTH110
        return TerminalWait.HIDDEN
    verdict = TerminalWait.NO
    for pid in members(group):
        calls = list(_blocked_calls(pid))
        if not calls:
            verdict = TerminalWait.HIDDEN
        for number, descriptor in calls:
            if number in _READ_CALLS[machine] and _is_terminal(pid, descriptor):
                return TerminalWait.YES
            if polling_counts and number in _POLL_CALLS[machine] and _is_terminal(pid, 0):
                return TerminalWait.YES
    return verdict


def reads_descriptor(pid: int, descriptor: int) -> bool:
    """Whether `pid` is blocked in a read of that descriptor (False where this is not known)."""
    reads = _READ_CALLS.get(os.uname().machine, set())
    return any(number in reads and fd == descriptor for number, fd in _blocked_calls(pid))


def _blocked_calls(pid: int) -> Iterator[tuple[int, int]]:
    """(system call, first argument) of each thread; (-1, -1) for one that runs."""
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
    try:
        found = os.stat(f"/proc/{pid}/fd/{descriptor}")  # noqa: PTH116 - follows the magic link
    except (*_GONE, PermissionError):
        return False
    if not stat.S_ISCHR(found.st_mode):
        return False
    major, minor = os.major(found.st_rdev), os.minor(found.st_rdev)
    return major in _PTS_MAJORS or (major == _TTY_MAJOR and minor == 0)
