"""Programs of ours that take orders and report as lines of JSON, seen from both ends of their
pipes."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TextIO

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
        self._stdin = self._process.stdin
        self.stdout: IO[bytes] = self._process.stdout
        self._heard = bytearray()

    def send(self, line: str) -> None:
        """Send a line. Does nothing if the program has just ended; `read_lines` tells of that."""
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
