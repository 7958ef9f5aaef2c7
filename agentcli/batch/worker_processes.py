"""Worker processes that take orders and report as lines of JSON: both ends of their pipes."""

from __future__ import annotations

import os
import queue
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from agentcli.batch.task import Order, Report
from agentcli.interrupts import shield

# --- the end of whoever starts it


class LineProgram:
    """Python that runs `code` with the modules of this process, and logs to the file `log`."""

    def __init__(
        self,
        code: str,
        environ: Mapping[str, str],
        log: Path,
        *,
        folder: str | None = None,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Raises OSError if it can't be started."""
        # The same module path as here: nothing that belongs to a task is on it.
        modules = [*sys.path, str(Path(__file__).parents[2])]
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with open(os.open(log, flags, 0o600)) as errors:
            self._process = subprocess.Popen(
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
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self.stdout = self._process.stdin, self._process.stdout
        self._heard = bytearray()

    def send(self, line: str) -> None:
        """Send a line; ignored if the program has just ended, which `read_lines` reports."""
        with suppress(BrokenPipeError):
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()

    def read_lines(self) -> list[bytearray] | None:
        """Return the lines that are complete by now, waiting until there is anything; None once
        nothing can come any more."""
        data = os.read(self.stdout.fileno(), 1 << 20)
        if not data:
            return None
        self._heard += data
        if b"\n" not in data:
            # A patch makes a long line, which comes in many pieces.
            return []
        *lines, self._heard = self._heard.split(b"\n")
        return lines

    def ask_to_end(self) -> None:
        """Close its stdin, which stops what it does."""
        with suppress(OSError):
            self._stdin.close()

    def end(self, patience_s: float | None = None) -> int:
        """Ask it to end, and kill it if it does not in time; return its exit code."""
        self.ask_to_end()
        try:
            code = self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait()
        self.stdout.close()
        return code


# --- the program's own end


def take_stdout() -> TextIO:
    """Return stdout for reports alone. What libraries print goes to stderr from now on, so that it
    is not taken for a report."""
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return reports


def send_line(reports: TextIO, line: str) -> None:
    reports.write(f"{line}\n")
    reports.flush()


class Orders:
    """Reads the lines of stdin on a thread of its own, and then calls `at_end`."""

    def __init__(self, at_end: Callable[[], None] = lambda: None) -> None:
        self.lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        """After the last one it has an empty line."""
        self.ended = threading.Event()
        self._at_end = at_end
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self.lines.put(line)
        self.ended.set()
        self.lines.put("")
        self._at_end()


_TASKS_OF_A_PROCESS = 100
"""Then a new process takes its place, as tools and libraries may keep memory."""
_PATIENCE_S = 15.0
"""How long tasks have to record an interrupt. Records are complete in any case."""


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
            code = self._dismiss(process)
            if process.order is not None:
                how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit {code}"
                told = f"its process ended ({how}); see {self._log}"
                yield Report(task_id=process.order.task.id, lost=told)
            return
        for line in lines:
            report = Report.of_line(line)
            if report.doing is None:
                process.order = None
                process.done += 1
                if process.done == _TASKS_OF_A_PROCESS:
                    self._dismiss(process)
            yield report

    def _dismiss(self, process: _Process) -> int:
        """Have a process end that has nothing to do, or has ended already; return its exit code."""
        self._processes.remove(process)
        self._selector.unregister(process.program.stdout)
        return process.program.end()
