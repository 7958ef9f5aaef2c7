"""Workers that are processes on this machine."""

from __future__ import annotations

import selectors
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.batch.line_program import LineProgram
from agentcli.batch.task import Order, Report
from agentcli.interrupts import shield

_TASKS_OF_A_PROCESS = 100
"""Then a new process takes its place, as tools and libraries may keep memory."""
_PATIENCE_S = 15.0
"""How long tasks have to record an interrupt. What is recorded is whole in any case."""


@dataclass
class _Process:
    program: LineProgram
    order: Order | None = None
    done: int = 0


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
            process.program.send(order.model_dump_json())

    def reports(self, seconds: float) -> Sequence[Report]:
        found: list[Report] = []
        for key, _ in self._selector.select(seconds):
            with shield():
                found += self._reports_of(key.data)
        return found

    def close(self) -> None:
        """Close their stdin, which stops what they do; kill those that don't end in time."""
        with shield():
            for process in self._processes:
                process.program.ask_to_end()
            until = time.monotonic() + _PATIENCE_S
            for process in self._processes:
                process.program.end(max(until - time.monotonic(), 0.01))
            self._processes.clear()
            self._selector.close()

    def _start(self) -> _Process:
        code = f"from agentcli.batch.worker import main; main({self._lock})"
        kept = () if self._lock is None else (self._lock,)
        process = _Process(LineProgram(code, self._environ, self._log, pass_fds=kept))
        self._processes.append(process)
        self._selector.register(process.program.stdout, selectors.EVENT_READ, process)
        return process

    def _reports_of(self, process: _Process) -> Iterator[Report]:
        lines = process.program.read_lines()
        if lines is None:
            yield from self._loss(process)
            return
        for line in lines:
            report = Report.of_line(line)
            if report.doing is None:
                process.order = None
                process.done += 1
                if process.done == _TASKS_OF_A_PROCESS:
                    self._dismiss(process)
            yield report

    def _loss(self, process: _Process) -> Iterator[Report]:
        code = self._dismiss(process)
        if process.order is not None:
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
            told = f"its process ended ({how}); see {self._log}"
            yield Report(task_id=process.order.task.id, lost=told)

    def _dismiss(self, process: _Process) -> int:
        """Have a process end that has nothing to do, or has ended already; return its exit code."""
        self._processes.remove(process)
        self._selector.unregister(process.program.stdout)
        return process.program.end()
