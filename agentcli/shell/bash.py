"""One bash process, which runs one script at a time and reports how it ended."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Mapping
from pathlib import Path

from agentcli.files.private import read_private, write_private
from agentcli.sandbox.selection import SpawnOptions
from agentcli.shell import bash_lines
from agentcli.shell.bash_lines import Pipes
from agentcli.shell.exchange import Exchange, Outcome, Watch, stop
from agentcli.shell.output import Capture, LiveOutput, clean
from agentcli.shell.terminal import Terminal
from agentcli.shell.variables import ExportWatch
from agentcli.system import processes
from agentcli.system.processes import ProcessHandle, TerminalWait
from agentcli.system.programs import find_program

_READY_S = 20.0
_ASK_S = 10.0
_END_S = 3.0
_GUESS_QUIET_S = 1.0
_LARGE_LISTING = 16_384
"""Bytes that bash writes in 0.1 to 0.2 ms; larger listings take longer and longer."""
_PROMPT = re.compile(
    r"(?:pass(?:word|phrase|code)|\bpin\b|otp|token|login|username)[^\n]*[:?] ?$"
    r"|[\[(](?:y/n|yes/no)[^\n]*[\])][^\n]{0,3}$",
    re.IGNORECASE,
)


class NotStarted(OSError):
    """What surrounds the program ended before it started. A path to be hidden or shown may have
    vanished meanwhile, so another try may succeed."""


class Bash:
    """`folder` is for this bash alone: the pipes, its start file and the current script."""

    def __init__(
        self,
        options: SpawnOptions,
        *,
        folder: Path,
        cwd: str,
        env: Mapping[str, str],
        exports: Mapping[str, str | None],
    ) -> None:
        """Return once the process runs; `cwd` is as commands see it. Raises OSError if it can't be
        started.

        bash itself applies `exports`; the programs around it see only `env`, because those
        variables (PATH, LD_PRELOAD) were chosen by commands.
        """
        self._rc = write_private(folder / "rc", bash_lines.start_lines(exports))
        bash = find_program("bash") or "/bin/bash"
        command = (bash, "--noprofile", "--rcfile", str(self._rc), "--noediting", "-i")
        self.terminal = Terminal(options, command, folder=folder, env=env)
        self.cwd = cwd
        self.status = 0
        self.flags = ""
        self.late = (b"", b"")
        """Output after the end of the last script, by processes that it left behind."""
        self._token = os.urandom(8).hex()
        self._counter = 0
        self._lists_jobs = False
        self._ready = False
        self._leader: ProcessHandle | None = None
        self._exports = ExportWatch()
        self._listing = b""

    @property
    def alive(self) -> bool:
        return self.terminal.alive and (self._leader is None or self._leader.alive)

    @property
    def reachable(self) -> bool:
        """False once a command has removed one of the pipes."""
        return all(path.exists() for path in self._pipes)

    @property
    def _pipes(self) -> Pipes:
        return Pipes(self.terminal.output_path, self.terminal.report_path)

    @property
    def leader(self) -> int:
        """The pid of bash itself as this process sees it; not that of a sandbox around it."""
        return self._leader.pid if self._leader else self.terminal.pid

    @property
    def has_answered(self) -> bool:
        """Whether it has ever answered a request."""
        return self._ready

    def await_ready(self, capture: Capture) -> None:
        """Wait until bash answers. Raises NotStarted if it ends first, OSError if it doesn't
        answer."""
        if self._ready:
            return
        exchange = self._exchange(capture)
        exchange.ask_again()
        outcome = exchange.wait(_READY_S)
        if outcome is not Outcome.DONE:
            said = clean(exchange.before).strip()
            why = f"the shell did not start: {said or outcome.value}"
            raise NotStarted(why) if outcome is Outcome.DIED else OSError(why)
        self._ready = True
        self._leader = self.terminal.foreground_leader()
        # The file may hold values that the session's record must not contain.
        self._rc.unlink(missing_ok=True)
        self._listing = exchange.listing or b""
        self.changed_exports()

    def begin(self, script: bytes, capture: Capture, *, stdin: bool) -> Exchange:
        """Start `script`; its commands see the status of the previous one as `$?`."""
        self.terminal.reset_modes()
        self.terminal.forget_wakes()
        path = write_private(self.terminal.folder / "script", script)
        self._lists_jobs = b"jobs" in script
        exchange = self._exchange(capture)
        exports = len(self._listing) < _LARGE_LISTING or bash_lines.may_export(script)
        line = bash_lines.run_lines(
            exchange.nonce,
            path,
            self._pipes,
            status=self.status,
            stdin=stdin,
            exports=exports,
            in_parts=b"_agent_parts+=" in script,
        )
        self.terminal.send_line(line)
        return exchange

    def follow(
        self, exchange: Exchange, seconds: float, *, live: LiveOutput, stdin: bool
    ) -> Outcome:
        """Follow a script for at most `seconds`. The outcome is WOKEN if the terminal is woken."""
        watch = self._watch(exchange, stdin=stdin)
        return exchange.wait(seconds, live=live, watch=watch, wakeable=True)

    def stop(self, exchange: Exchange) -> Outcome:
        """Stop what runs, within 5 s."""
        outcome = stop(exchange, self._leader)
        if outcome is Outcome.DONE:
            self._end_strays(exchange)
        return outcome

    def told_parts(self, exchange: Exchange) -> str:
        """Return the value of the variable of `parts` after a command was stopped."""
        target = self.terminal.folder / "parts"
        self.ask(bash_lines.parts_script(target), exchange.capture)
        return (read_private(target) or b"").decode("ascii", "replace")

    def conclude(self, exchange: Exchange) -> None:
        """Update this object from the report about the shell."""
        self._take_state(exchange)
        if exchange.report:
            report = bash_lines.parse_report(exchange.report[1])
            self.status = report.status if report else self.status

    def ask(self, script: bytes, capture: Capture) -> Outcome:
        """Run a script of our own, unseen by the next command."""
        exchange = self.begin(script, capture, stdin=False)
        outcome = exchange.wait(_ASK_S)
        self._take_state(exchange)
        return outcome

    def changed_exports(self) -> dict[str, str | None]:
        """Return the exported variables that changed since the last call; None means unset."""
        return self._exports.changes(self._listing)

    def exit_code(self) -> int:
        """Return the exit code of a bash that is not alive, after ending what it left running."""
        self.terminal.kill()
        self.terminal.reap()
        return self.terminal.exit_code

    def close(self) -> None:
        self.terminal.close()
        if self._leader is not None:
            self._leader.close()

    def end(self) -> tuple[int, int]:
        """Close it, wait until everything it started is gone, and return how many processes it had
        left running, and how many of them still run, as those of another user (sudo) do."""
        own = {self.leader, self.terminal.pid}
        leader = processes.process_stat(self.leader)
        own |= {leader.parent} if leader else set()
        family = processes.descendants(self.terminal.pid)
        left = [p for p in family if p.pid not in own and not p.over]
        self.close()
        processes.await_end(family, _END_S)
        return len(left), sum(map(processes.is_running, left))

    def script_text(self, text: str) -> str:
        """Remove bash's mentions of our script file, and of jobs that ended, from output."""
        path = str(self.terminal.folder / "script")
        first, newline, rest = text.partition("\n")
        if first.endswith(f"+ . {path}"):
            text = rest if newline else ""
        text = text.removesuffix(bash_lines.FALLBACK_PREFIX).replace(f"{path}: ", "")
        return text if self._lists_jobs else bash_lines.strip_job_notices(text)

    def _watch(self, exchange: Exchange, *, stdin: bool) -> Watch:
        def look(quiet: float) -> Outcome | None:
            if self.terminal.foreground() is None:
                return None
            if self.terminal.idle(self.leader):
                return Outcome.LOST
            guess = quiet >= _GUESS_QUIET_S
            front = self.terminal.foreground_processes()
            waits = processes.waits_for_terminal(front, polling_counts=stdin and guess)
            if waits is TerminalWait.YES:
                return Outcome.WAITING
            hidden = waits is TerminalWait.HIDDEN and guess
            return Outcome.WAITING if hidden and _PROMPT.search(exchange.capture.end()) else None

        return look

    def _end_strays(self, exchange: Exchange) -> None:
        """Kill children that bash lost track of when it was interrupted before waiting for them."""
        self.conclude(exchange)
        strays = processes.children(self.leader, since=exchange.started_ticks)
        if not strays:
            return
        target = self.terminal.folder / "jobs"
        self.ask(bash_lines.jobs_script(target), exchange.capture)
        told = (read_private(target) or b"").split()[: len(strays)]
        known = [processes.find_descendant(number, self.terminal.pid) for number in told]
        processes.send((stray for stray in strays if stray not in known), signal.SIGKILL)

    def _take_state(self, exchange: Exchange) -> None:
        self.late = exchange.after
        if exchange.report:
            if report := bash_lines.parse_report(exchange.report[1]):
                self.flags, self.cwd = report.flags, report.cwd or self.cwd
            self._listing = exchange.listing or self._listing

    def _exchange(self, capture: Capture) -> Exchange:
        self._counter += 1
        nonce = f"{self._token}{self._counter}"
        return Exchange(
            self.terminal,
            nonce,
            capture,
            is_report=lambda text: bash_lines.parse_report(text) is not None,
            before=self.late,
            ask_again=bash_lines.report_lines(nonce, self._pipes),
            ask_end=bash_lines.end_line(nonce, self._pipes),
        )
