"""One bash process, which runs one script at a time and reports how it ended."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from agentcli.sandbox.selection import SpawnOptions
from agentcli.shell import bash_lines
from agentcli.shell.bash_lines import Pipes, ended_parts, shortened
from agentcli.shell.exchange import Exchange, Outcome, Watch
from agentcli.shell.interpreter import InterpreterProcess
from agentcli.shell.output import Capture, LiveOutput
from agentcli.shell.terminal import Terminal
from agentcli.shell.variables import ExportWatch
from agentcli.system import processes
from agentcli.system.processes import ProcessStat, TerminalWait
from agentcli.system.programs import find_program
from agentcli.workspace.private import read_private, write_private

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


class Bash(InterpreterProcess):
    """`folder` is for this bash alone: the pipes, its start file and the current script."""

    _READY_S = 20.0

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
        super().__init__("the shell", Terminal(options, command, folder=folder, env=env))
        self.cwd = cwd
        self.status = 0
        self.flags = ""
        self._lists_jobs = False
        self._exports = ExportWatch()
        self._listing = b""

    @property
    def reachable(self) -> bool:
        return all(path.exists() for path in self._pipes)

    @property
    def _pipes(self) -> Pipes:
        return Pipes(self.terminal.output_path, self.terminal.report_path)

    def await_ready(self, capture: Capture) -> Exchange:
        exchange = super().await_ready(capture)
        # The file may hold values that the session's record must not contain.
        self._rc.unlink(missing_ok=True)
        self._listing = exchange.listing or b""
        self.changed_exports()
        return exchange

    def _first_request(self, capture: Capture) -> Exchange:
        exchange = self._exchange(capture)
        exchange.ask_again()
        return exchange

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
        outcome = super().stop(exchange)
        if outcome is Outcome.DONE:
            self._end_strays(exchange)
        return outcome

    def recorded_parts(self, exchange: Exchange) -> str:
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
        nonce = self._nonce()
        return Exchange(
            self.terminal,
            nonce,
            capture,
            is_report=lambda text: bash_lines.parse_report(text) is not None,
            before=self.late,
            ask_again=bash_lines.report_lines(nonce, self._pipes),
            ask_end=bash_lines.end_line(nonce, self._pipes),
        )


def stop_at_limit(
    bash: Bash, exchange: Exchange, timeout: float, parts: Sequence[str], apart: bool
) -> tuple[Outcome, str]:
    """End the command made of `parts`; return the outcome and a note for the model."""
    programs = running_programs(bash.terminal.foreground_processes(), bash.leader)
    outcome = bash.stop(exchange)
    lives = outcome is Outcome.DONE
    told = ended_parts(parts, bash.recorded_parts(exchange)) if lives and parts else []
    return outcome, _note(timeout, programs, told, bash.cwd if lives and not apart else None)


def running_programs(foreground: Collection[ProcessStat], leader: int) -> list[str]:
    """Return the first program in the foreground, which the command line names, and the newest that
    it started, with the time that each has run; none when the shell itself, the `leader`, is at
    work."""
    if any(each.pid == leader for each in foreground):
        return []
    readers = processes.pipe_readers(foreground)
    found = [each for each in foreground if each not in readers]
    found.sort(key=lambda each: (each.started, each.pid))
    newest = [each for each in found[1:] if each.parent in {other.pid for other in found}][-1:]
    now, tick = processes.ticks_now(), os.sysconf("SC_CLK_TCK")
    return [
        f"`{shortened(processes.command_line(each.pid))}` ({(now - each.started) / tick:.0f} s)"
        for each in (*found[:1], *newest)
    ]


def _note(
    timeout: float,
    programs: Sequence[str],
    done: Sequence[tuple[str, int]],
    cwd: str | None,
) -> str:
    """Return the note. `done` are the parts that had ended, with their exit codes; `cwd` is the
    shell's folder, None if the shell did not survive."""
    what = " in ".join(reversed(programs)) or "a loop or builtin of the shell"
    note = f"stopped after {timeout:g} s, when {what} was running"
    if done:
        note += "; before it " + ", ".join(f"`{part}` had exit {code}" for part, code in done)
    if cwd is not None:
        note += f". The shell is alive, in {cwd}"
    return f"{note}. Give it more time or run it in the background"
