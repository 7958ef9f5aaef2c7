"""A command that ran in the foreground and goes on in the background."""

from __future__ import annotations

import logging
import signal
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
    """It takes the `bash` that runs it along, which from now on is used by a thread of the job
    alone. That writes the output to the log until the command has ended and, unless it is `apart`,
    until nothing is left running of what was begun in this bash before.
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
        """Raises OSError if there can be no log."""
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
        """As a command is stopped at its time limit; then what else it started, by TERM and KILL.
        At most 10 s."""
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
        except Exception:
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
        """Jobs and other processes that were begun in this bash before may go on."""
        terminal = self.bash.terminal
        while not self._apart and not terminal.ended:
            if not processes.children(self.bash.leader, since=0):
                return
            output, on_terminal, _ = terminal.pump(_LOOK_S)
            self._exchange.capture.feed(output + on_terminal)
