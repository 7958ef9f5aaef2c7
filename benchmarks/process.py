"""Runs one command as a whole process tree: when it began and ended, its CPU time, its memory."""

from __future__ import annotations

import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_SUBREAPER = 36
_SHELLS = {"bash", "sh", "dash"}
_SAMPLE_S = 0.02
_GRACE_S = 0.3
_kept: set[int] = set()


@dataclass(frozen=True)
class Sample:
    """What the tree held at one moment; a shell's own commands are left out."""

    at: float
    rss_mb: float


@dataclass
class Run:
    """One process tree from spawn to end. Times are those of `time.monotonic`."""

    started: float
    ended: float = 0.0
    code: int = 0
    cpu_s: float = 0.0
    """User and system time of the whole tree, commands included."""
    peak_mb: float = 0.0
    """The most that the peaks of processes alive together came to."""
    samples: list[Sample] = field(default_factory=list)
    out: str = ""
    err: str = ""
    strays: int = 0
    """Processes that were still there after the end; they are killed."""

    @property
    def wall_s(self) -> float:
        return self.ended - self.started

    def rss_at(self, moment: float) -> float:
        """Memory in the sample nearest to `moment`; 0 without samples."""
        if not self.samples:
            return 0.0
        return min(self.samples, key=lambda sample: abs(sample.at - moment)).rss_mb


def adopt_orphans() -> None:
    """Have every descendant whose parent ends handed to this process, so that none is missed."""
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


def run(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    timeout_s: float = 120.0,
    memory: bool = True,
) -> Run:
    """Run `argv` to its end with an empty stdin. Raises TimeoutError after killing the tree."""
    before = _cpu_of_children()
    out_path, err_path = cwd.parent / "out.txt", cwd.parent / "err.txt"
    with out_path.open("wb") as out, err_path.open("wb") as err:
        done = Run(started=time.monotonic())
        process = subprocess.Popen(
            argv,
            env=dict(env),
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
        )
        try:
            _watch(process.pid, done, done.started + timeout_s, memory=memory)
            done.code = process.wait()
        finally:
            done.strays = _end_tree(process)
    done.cpu_s = _cpu_of_children() - before
    done.out = out_path.read_text(errors="replace")
    done.err = err_path.read_text(errors="replace")
    return done


def environment(**extra: str) -> dict[str, str]:
    """The environment that measured programs get: little of ours, all requests to loopback."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return kept | {"TERM": "dumb"} | extra


def keep(pid: int) -> None:
    """Leave this child of ours alone: it is not part of what is measured."""
    _kept.add(pid)


def _watch(pid: int, done: Run, deadline: float, *, memory: bool) -> None:
    """Sample until the process ends; its end wakes us at once."""
    handle = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        while not poll.poll(_SAMPLE_S * 1000 if memory else 1000):
            now = time.monotonic()
            if now > deadline:
                raise TimeoutError(f"process {pid} did not end in time")
            if memory:
                resident, peak = _memory(pid)
                done.samples.append(Sample(now, resident))
                done.peak_mb = max(done.peak_mb, peak)
        done.ended = time.monotonic()
    finally:
        os.close(handle)


def _memory(root: int) -> tuple[float, float]:
    """MB of the tree now, and its living processes' own peaks added up.

    A child that still is its parent's copy, as between fork and exec, is not counted.
    """
    resident = peak = 0.0
    waiting = [(root, b"")]
    while waiting:
        pid, parents_words = waiting.pop()
        words, status = _command_line(pid), _status(pid)
        if "VmRSS" not in status or words == parents_words:
            continue
        resident += _mb(status["VmRSS"])
        peak += _mb(status["VmHWM"])
        if status["Name"] not in _SHELLS or pid == root:
            waiting += [(child, words) for child in _children(pid)]
    return resident, peak


def _status(pid: int) -> dict[str, str]:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _mb(kilobytes: str) -> float:
    return int(kilobytes.split()[0]) / 1024


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    except OSError:
        pass  # it ended while we looked
    return found


def _end_tree(process: subprocess.Popen[bytes]) -> int:
    """Kill what is left and reap it, so that its CPU time counts; returns how many were killed."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    killed = 0
    grace = time.monotonic() + _GRACE_S
    while orphans := [pid for pid in _children(os.getpid()) if pid not in _kept]:
        for pid in orphans:
            if time.monotonic() > grace and not os.waitpid(pid, os.WNOHANG)[0]:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                killed += 1
            else:
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)
    return killed


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
