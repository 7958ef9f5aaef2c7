"""Background jobs of a shell: started as such, or sent there while they ran."""

from __future__ import annotations

import logging
import os
import signal
import termios
import time
from abc import ABC, abstractmethod
from pathlib import Path
from threading import Event, Thread

from agentcli.shell import bash_lines
from agentcli.shell.bash import Bash
from agentcli.shell.output import Capture, RenderedOutput
from agentcli.shell.terminal_request import Outcome, TerminalRequest
from agentcli.system import processes
from agentcli.system.processes import ProcessHandle, ProcessStat
from agentcli.workspace.private import DISK_BYTES, read_private, write_private

_LADDER = ((signal.SIGTERM, 2.0), (signal.SIGKILL, 1.0))
_STRUCK = {128 + signum for signum in (signal.SIGHUP, signal.SIGTERM, signal.SIGKILL)}
_CHUNK = 1 << 20


class Job(ABC):
    """Something that runs in the background, with the `log` of its output. `started` is on the
    monotonic clock."""

    def __init__(self, job_id: str, log: Path, cwd: str, started: float) -> None:
        self.job_id = job_id
        self.log = log
        self.cwd = cwd
        self.started = started
        self.exit_code: int | None = None
        """Set once it has ended, if it left one."""
        self.over = False
        # Opened before anyone else writes there, as the job may remove the permission to read it.
        self._log = os.open(log, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)

    @property
    @abstractmethod
    def pid(self) -> int | None: ...

    @abstractmethod
    def look(self) -> bool:
        """Return whether it has ended by now."""

    @abstractmethod
    def stop(self) -> bool:
        """End everything that it started. Return False for a job that can't be told from the other
        processes of its shell."""

    @abstractmethod
    def end_with_shell(self) -> bool:
        """End the job after its shell has ended; return whether that cut it short."""

    def output(self, max_chars: int) -> RenderedOutput:
        """Return the beginning and the end of the first 50 MB of the log."""
        capture = Capture(self.log, spool=False)
        with open(os.dup(self._log), "rb") as file:
            file.seek(0)
            while file.tell() < DISK_BYTES and (data := file.read(_CHUNK)):
                capture.feed(data)
        return capture.render(max_chars, self._readable)

    def close(self) -> None:
        os.close(self._log)

    def _readable(self, text: str) -> str:
        """Remove from output what only this package needs."""
        return text


class SubshellJob(Job):
    """A job started in the background. The kernel tells whether its subshell `process` runs. That
    is None if the number that the shell reported is not one of its processes; such a job ends with
    the shell.

    The job itself can write to `status` and `log`, so neither proves anything.
    """

    def __init__(
        self, job_id: str, process: ProcessStat | None, log: Path, status: Path, cwd: str
    ) -> None:
        super().__init__(job_id, log, cwd, time.monotonic())
        self.process = process
        self._status = status
        self._handle = ProcessHandle(process) if process is not None else None

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def look(self) -> bool:
        if not self.over and not (self._handle is not None and self._handle.alive):
            self.exit_code = self._recorded_exit_code()
            self.over = self._handle is not None or self.exit_code is not None
        return self.over

    def stop(self) -> bool:
        """End it with TERM, after 2 s with KILL."""
        if self.look():
            return True
        if self.process is None:
            return False
        sent = processes.end_tree(self.process, _LADDER)
        self.over, code = True, self._recorded_exit_code()
        self.exit_code = 128 + sent if code is None else code
        return True

    def end_with_shell(self) -> bool:
        if self.over:
            return False
        if self.process is not None:
            processes.end_tree(self.process, _LADDER[-1:])
        code = self._recorded_exit_code()
        # Some jobs live long enough to record the signal that ended them.
        self.over, self.exit_code = True, None if code in _STRUCK else code
        return self.exit_code is None

    def close(self) -> None:
        super().close()
        if self._handle is not None:
            self._handle.close()

    def _recorded_exit_code(self) -> int | None:
        """Return the exit code that it left."""
        text = read_private(self._status) or b""
        return int(text) & 0xFF if text.isdigit() and len(text) <= 3 else None


def begin_job(
    bash: Bash, base: Path, script: bytes, log: Path, log_bytes: int, capture: Capture
) -> SubshellJob:
    """Start `script` in the background of `bash`, with its folder and variables. The name of `base`
    is the job's id; the shell uses files beside it. `log` keeps `log_bytes` of the output.

    Raises OSError if it could not be started.
    """
    source = write_private(base.with_suffix(".sh"), script)
    status, number = base.with_suffix(".status"), base.with_suffix(".pid")
    written = base.with_suffix(".log")
    # The job can change the content of the log, but not which file the log's name refers to.
    written.hardlink_to(log)
    start = bash_lines.background_script(
        source, written, status, number, errexit="e" in bash.flags, limit=log_bytes
    )
    since = processes.ticks_now()
    outcome = bash.ask(start, capture)
    if outcome is not Outcome.DONE:
        raise OSError(f"the shell could not start a background job ({outcome.value})")
    process = processes.find_descendant(read_private(number) or b"", bash.terminal.pid)
    job = SubshellJob(base.name, process, log, status, bash.cwd)
    if process is None and not job.look():
        # It has been killed already, or the number was false.
        job.over = not processes.children(bash.leader, since=since)
    return job


SENT = (
    "the user sent this command to the background, where it goes on without a time limit; above is "
    "its output so far, the log has all of it; bash with job shows (status) or ends (stop) it:"
)
NEW_SHELL = (
    "the next command has a new shell, with the variables that earlier commands exported; other "
    "variables, functions and aliases are lost. It starts in"
)
_DETACHED_LADDER = ((signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))
_LOOK_S = 5.0
_STOP_S = 9.0
_END_S = 6.0

log = logging.getLogger(__name__)


class DetachedJob(Job):
    """A job that takes over the `bash` that runs it; from then on only a thread of the job uses
    that bash. The thread writes the output to the log until the command has ended and, unless
    `apart`, until nothing that was started in this bash before is still running.
    """

    def __init__(
        self,
        job_id: str,
        bash: Bash,
        request: TerminalRequest,
        *,
        cwd: str,
        started: float,
        apart: bool,
    ) -> None:
        """Raises OSError if no log can be made."""
        super().__init__(job_id, request.capture.stream_to_file(), cwd, started)
        self.bash = bash
        self._request = request
        self._apart = apart
        self._killed = False
        self._ended = Event()
        self._thread = Thread(target=self._attend, name=job_id, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int | None:
        return self.bash.leader

    def look(self) -> bool:
        return self.over

    def stop(self) -> bool:
        """Stop it as at a time limit, then end what else it started with TERM and KILL. Takes at
        most 10 s."""
        self.bash.terminal.wake()
        if not self._ended.wait(_STOP_S):
            self.bash.terminal.kill_soon()
            self._ended.wait(_END_S)
        return True

    def end_with_shell(self) -> bool:
        had_to_end = not self.over
        self._killed = True
        self.bash.terminal.kill_soon()
        self._thread.join(_END_S)
        return had_to_end

    def _readable(self, text: str) -> str:
        return self.bash.script_text(text)

    # --- on its thread

    def _attend(self) -> None:
        try:
            self._follow()
            self._outlast()
        except (OSError, termios.error):
            log.exception("%s can't be followed any more", self.job_id)
        finally:
            self.over = True
            self._ended.set()
            self.bash.close()
            self._request.capture.close()

    def _follow(self) -> None:
        outcome = Outcome.TIMEOUT
        while outcome is Outcome.TIMEOUT:
            outcome = self._request.wait(_LOOK_S, wakeable=True)
        if outcome is Outcome.WOKEN:
            outcome = self.bash.stop(self._request)
            for process in processes.children(self.bash.leader, since=self._request.started_ticks):
                processes.end_tree(process, _DETACHED_LADDER)
        if outcome is Outcome.DONE:
            self.bash.conclude(self._request)
            self.exit_code = self.bash.status
        elif not self._killed:
            self.exit_code = self.bash.exit_code()
        self.over = True
        self._ended.set()

    def _outlast(self) -> None:
        """Wait for jobs and other processes started earlier in this bash, which may still run."""
        terminal = self.bash.terminal
        while not self._apart and not terminal.ended:
            if not processes.children(self.bash.leader, since=0):
                return
            output, on_terminal, _ = terminal.pump(_LOOK_S)
            self._request.capture.feed(output + on_terminal)
