"""Background jobs of a shell: what is known of them and how they are ended."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass
from pathlib import Path

from agentcli.runtime import processes
from agentcli.runtime.folders import read_private, write_private
from agentcli.runtime.output import Capture, Rendered

_TERM_PATIENCE_S = 2.0
_POLL_S = 0.02
_CHUNK = 1 << 20


@dataclass(frozen=True)
class Job:
    job_id: str
    command: str
    pid: int
    """Of the subshell that runs it, as we count; also its process group."""
    identity: int | None
    """When that process started, in the kernel's ticks: a pid may be given out again."""
    log: Path
    status: Path
    cwd: str
    started: float
    """On the monotonic clock."""

    @property
    def running(self) -> bool:
        return not self.status.exists() and self._is_same_process()

    def exit_code(self) -> int | None:
        """None while it runs; 137 if it vanished without a word, for then it was killed."""
        return None if self.running else self._last_word(signal.SIGKILL)

    def output(self, max_chars: int) -> Rendered:
        capture = Capture(self.log, spool=False)
        with self.log.open("rb") as file:
            while data := file.read(_CHUNK):
                capture.feed(data)
        return capture.render(max_chars)

    def stop(self) -> int:
        """TERM, after 2 s KILL, to everything it started; returns the exit code."""
        sent = signal.SIGKILL
        for signum, patience in ((signal.SIGTERM, _TERM_PATIENCE_S), (signal.SIGKILL, 1.0)):
            if not self.running:
                break
            sent = signum
            self._await(processes.send_tree(self.pid, signum), patience)
        code = self._last_word(sent)
        write_private(self.status, str(code).encode())
        return code

    def kill(self) -> None:
        if self.running:
            processes.send_tree(self.pid, signal.SIGKILL)

    def _last_word(self, signum: signal.Signals) -> int:
        """The status it left; 128 + `signum` if it could not even leave that."""
        text = read_private(self.status) or b""
        return int(text) if text.isdigit() and len(text) <= 3 else 128 + signum

    def _await(self, targets: list[int], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and any(processes.is_alive(pid) for pid in targets):
            time.sleep(_POLL_S)

    def _is_same_process(self) -> bool:
        if self.identity is None:
            return processes.is_alive(self.pid)
        found = processes.process_stat(self.pid)
        return found is not None and found.started == self.identity and found.state not in "ZX"


def job_identity(pid: int) -> int | None:
    found = processes.process_stat(pid)
    return None if found is None else found.started
