"""A command that started in the foreground and continues in the background."""

from __future__ import annotations

import logging
import signal
import termios
from threading import Event, Thread

from agentcli.shell.bash import Bash
from agentcli.shell.exchange import Exchange, Outcome
from agentcli.shell.jobs import Job
from agentcli.system import processes

SENT = (
    "the user sent this command to the background, where it goes on without a time limit; above is "
    "its output so far, the log has all of it; bash with job shows (status) or ends (stop) it:"
)
NEW_SHELL = (
    "the next command has a new shell, with the variables that earlier commands exported; other "
    "variables, functions and aliases are lost. It starts in"
)
_LADDER = ((signal.SIGTERM, 1.0), (signal.SIGKILL, 1.0))
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
        exchange: Exchange,
        *,
        cwd: str,
        started: float,
        apart: bool,
    ) -> None:
        """Raises OSError if no log can be made."""
        super().__init__(job_id, exchange.capture.become_log(), cwd, started)
        self.bash = bash
        self._exchange = exchange
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
            self._exchange.capture.close_log()

    def _follow(self) -> None:
        outcome = Outcome.TIMEOUT
        while outcome is Outcome.TIMEOUT:
            outcome = self._exchange.wait(_LOOK_S, wakeable=True)
        if outcome is Outcome.WOKEN:
            outcome = self.bash.stop(self._exchange)
            for process in processes.children(self.bash.leader, since=self._exchange.started_ticks):
                processes.end_tree(process, _LADDER)
        if outcome is Outcome.DONE:
            self.bash.conclude(self._exchange)
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
            self._exchange.capture.feed(output + on_terminal)
