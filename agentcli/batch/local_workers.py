"""Workers that are processes on this machine."""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from agentcli.batch.task import Order
from agentcli.batch.workers import Report, report_of
from agentcli.interrupts import shield

_TASKS_OF_A_PROCESS = 100
"""Then a new process takes its place, as tools and libraries may keep memory."""
_PATIENCE_S = 15.0
"""How long tasks have to record an interrupt. What is recorded is whole in any case."""


@dataclass
class _Process:
    program: subprocess.Popen[bytes]
    order: Order | None = None
    done: int = 0
    heard: bytearray = field(default_factory=bytearray)


def start_program(
    code: str,
    environ: Mapping[str, str],
    log: Path,
    *,
    folder: str | None = None,
    pass_fds: Sequence[int] = (),
) -> subprocess.Popen[bytes]:
    """Start Python with `code` and the modules of this process, with pipes for stdin and stdout."""
    # The same module path as here: nothing that belongs to a task is on it.
    modules = [*sys.path, str(Path(__file__).parents[2])]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    with open(os.open(log, flags, 0o600)) as errors:
        return subprocess.Popen(
            [sys.executable, "-I", "-c", f"import sys; sys.path[:] = {modules!r}; {code}"],
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            pass_fds=pass_fds,
            # Ctrl-C goes to the batch alone, which ends its workers in order.
            process_group=0,
        )


class LocalWorkers:
    """`count` processes in the environment `environ`, which log to the file `log`. The file `lock`,
    if given, stays locked until the last of them has ended."""

    def __init__(
        self, count: int, environ: Mapping[str, str], log: Path, lock: int | None = None
    ) -> None:
        self.count = count
        self._environ = environ
        self._log = log
        self._lock = lock
        self._processes: list[_Process] = []
        self._selector = selectors.DefaultSelector()

    def begin(self, order: Order) -> None:
        """Give the order to an idle process. Raises OSError if none can be started."""
        with shield():
            idle = next((each for each in self._processes if each.order is None), None)
            process = idle or self._start()
            process.order = order
            assert process.program.stdin is not None
            # `reports` tells of a process that has just ended.
            with suppress(BrokenPipeError):
                process.program.stdin.write(order.model_dump_json().encode() + b"\n")
                process.program.stdin.flush()

    def reports(self, seconds: float) -> Sequence[Report]:
        found: list[Report] = []
        for key, _ in self._selector.select(seconds):
            with shield():
                found += self._heard(key.data)
        return found

    def close(self) -> None:
        """Close their stdin, which stops what they do; kill those that don't end in time."""
        with shield():
            for process in self._processes:
                assert process.program.stdin is not None
                with suppress(OSError):
                    process.program.stdin.close()
            until = time.monotonic() + _PATIENCE_S
            for process in self._processes:
                try:
                    process.program.wait(max(until - time.monotonic(), 0.01))
                except subprocess.TimeoutExpired:
                    process.program.kill()
                    process.program.wait()
            self._processes.clear()
            self._selector.close()

    def _start(self) -> _Process:
        code = f"from agentcli.batch.worker import main; main({self._lock})"
        kept = () if self._lock is None else (self._lock,)
        program = start_program(code, self._environ, self._log, pass_fds=kept)
        process = _Process(program)
        self._processes.append(process)
        assert program.stdout is not None
        self._selector.register(program.stdout, selectors.EVENT_READ, process)
        return process

    def _heard(self, process: _Process) -> Iterator[Report]:
        assert process.program.stdout is not None
        data = os.read(process.program.stdout.fileno(), 1 << 20)
        if not data:
            yield from self._lost(process)
            return
        process.heard += data
        *lines, rest = process.heard.split(b"\n")
        process.heard = rest
        for line in lines:
            yield self._told(process, bytes(line))

    def _told(self, process: _Process, line: bytes) -> Report:
        report = report_of(json.loads(line))
        if report.doing is None:
            process.order = None
            process.done += 1
            if process.done == _TASKS_OF_A_PROCESS:
                self._dismiss(process)
        return report

    def _lost(self, process: _Process) -> Iterator[Report]:
        order = process.order
        self._dismiss(process)
        code = process.program.wait()
        if order is not None:
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
            yield Report(order.task.id, lost=f"its process ended ({how}); see {self._log}")

    def _dismiss(self, process: _Process) -> None:
        program = process.program
        assert program.stdin is not None
        assert program.stdout is not None
        self._processes.remove(process)
        self._selector.unregister(program.stdout)
        with suppress(OSError):
            program.stdin.close()
        program.wait()
        program.stdout.close()
