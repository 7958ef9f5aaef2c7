"""One bash process, which runs one script at a time and reports how it ended."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from agentcli.sandbox.selection import SpawnOptions
from agentcli.shell import bash_lines
from agentcli.shell.bash_lines import Pipes, ended_parts, shortened
from agentcli.shell.interpreter import InterpreterProcess
from agentcli.shell.output import Capture, LiveOutput
from agentcli.shell.terminal import Terminal
from agentcli.shell.terminal_request import Outcome, TerminalRequest, Watch
from agentcli.shell.variables import ExportWatch
from agentcli.system import processes
from agentcli.system.processes import ProcessStat, TerminalWait
from agentcli.system.programs import find_program
from agentcli.workspace.private import read_private, write_private

_ASK_S = 10.0
_END_S = 3.0
_MOST_NAMED = 3
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

    def await_ready(self, capture: Capture) -> TerminalRequest:
        request = super().await_ready(capture)
        # The file may hold values that the session's record must not contain.
        self._rc.unlink(missing_ok=True)
        self._listing = request.listing or b""
        self.changed_exports()
        return request

    def _first_request(self, capture: Capture) -> TerminalRequest:
        request = self._request(capture)
        request.ask_again()
        return request

    def begin(self, script: bytes, capture: Capture, *, stdin: bool) -> TerminalRequest:
        """Start `script`; its commands see the status of the previous one as `$?`."""
        self.terminal.reset_modes()
        self.terminal.forget_wakes()
        path = write_private(self.terminal.folder / "script", script)
        self._lists_jobs = b"jobs" in script
        request = self._request(capture)
        exports = (
            len(self._listing) < _LARGE_LISTING or bash_lines.MAY_EXPORT.search(script) is not None
        )
        line = bash_lines.run_lines(
            request.nonce,
            path,
            self._pipes,
            status=self.status,
            stdin=stdin,
            exports=exports,
            in_parts=b"_agent_parts+=" in script,
        )
        self.terminal.send_line(line)
        return request

    def follow(
        self, request: TerminalRequest, seconds: float, *, live: LiveOutput, stdin: bool
    ) -> Outcome:
        """Follow a script for at most `seconds`. The outcome is WOKEN if the terminal is woken."""
        watch = self._watch(request, stdin=stdin)
        return request.wait(seconds, live=live, watch=watch, wakeable=True)

    def stop(self, request: TerminalRequest) -> Outcome:
        outcome = super().stop(request)
        if outcome is Outcome.DONE:
            self._end_strays(request)
        return outcome

    def recorded_parts(self, request: TerminalRequest) -> str:
        """Return which parts of a command had ended when it was stopped, as `ended_parts` reads."""
        script = f"\\builtin printf '%s' \"${bash_lines.VARIABLE}\""
        return self._printed("parts", script, request.capture).decode("ascii", "replace")

    def conclude(self, request: TerminalRequest) -> None:
        """Update this object from the report about the shell."""
        self._take_state(request)
        if request.report:
            report = bash_lines.parse_report(request.report[1])
            self.status = report.status if report else self.status

    def ask(self, script: bytes, capture: Capture) -> Outcome:
        """Run a script of our own, unseen by the next command."""
        request = self.begin(script, capture, stdin=False)
        outcome = request.wait(_ASK_S)
        self._take_state(request)
        return outcome

    def _printed(self, name: str, script: str, capture: Capture) -> bytes:
        """Run a script of our own and return what it prints, by way of the file `name`."""
        target = self.terminal.folder / name
        self.ask(f"{script} >|{shlex.quote(str(target))}\n".encode(), capture)
        return read_private(target) or b""

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
        return text if self._lists_jobs else bash_lines.JOB_NOTICE.sub("", text)

    def _watch(self, request: TerminalRequest, *, stdin: bool) -> Watch:
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
            return Outcome.WAITING if hidden and _PROMPT.search(request.capture.end()) else None

        return look

    def _end_strays(self, request: TerminalRequest) -> None:
        """Kill children that bash lost track of when it was interrupted before waiting for them."""
        self.conclude(request)
        strays = processes.children(self.leader, since=request.started_ticks)
        if not strays:
            return
        # Each job of the shell has a leading process.
        listed = self._printed("jobs", r"\builtin jobs -p", request.capture).split()
        listed = listed[: len(strays)]
        known = [processes.find_descendant(number, self.terminal.pid) for number in listed]
        processes.send((stray for stray in strays if stray not in known), signal.SIGKILL)

    def _take_state(self, request: TerminalRequest) -> None:
        self.late = request.after
        if request.report:
            if report := bash_lines.parse_report(request.report[1]):
                self.flags, self.cwd = report.flags, report.cwd or self.cwd
            self._listing = request.listing or self._listing

    def _request(self, capture: Capture) -> TerminalRequest:
        nonce = self._nonce()
        return TerminalRequest(
            self.terminal,
            nonce,
            capture,
            is_report=lambda text: bash_lines.parse_report(text) is not None,
            before=self.late,
            ask_again=bash_lines.report_lines(nonce, self._pipes),
            ask_end=bash_lines.end_line(nonce, self._pipes),
        )


def stop_at_limit(
    bash: Bash,
    request: TerminalRequest,
    timeout: float,
    parts: Sequence[str],
    place: Callable[[Bash], str] | None,
) -> tuple[Outcome, str]:
    """End the command made of `parts`; return the outcome and a note for the model. `place` words
    where the shell is; None for one that ends with its command."""
    foreground = bash.terminal.foreground_processes()
    programs = running_programs(foreground, bash.leader)
    outcome = bash.stop(request)
    what = " in ".join(reversed(programs)) or "a loop or builtin of the shell"
    note = f"stopped after {timeout:g} s, when {what} was running"
    if outcome is Outcome.DONE:
        done = ended_parts(parts, bash.recorded_parts(request)) if parts else []
        if done:
            note += "; before it " + ", ".join(f"`{part}` had exit {code}" for part, code in done)
        if place is not None:
            left = left_running(bash, request.started_ticks, foreground)
            note += f"; still running in the background: {', '.join(left)}" if left else ""
            note += f". The shell is alive{place(bash)}"
    return outcome, f"{note}. Give it more time or run it in the background"


def left_running(bash: Bash, since: int, stopped: Collection[ProcessStat]) -> list[str]:
    """Return what was started at `since` (in ticks) or later and goes on without the `stopped`
    foreground: only the first of what belongs together, and no mere copies of the shell."""
    shell = processes.command_line(bash.leader)
    found = [
        each
        for each in processes.descendants(bash.terminal.pid)
        if each.started >= since and not each.over and each not in stopped
    ]
    found.sort(key=lambda each: (each.started, each.pid))
    lines = {each.pid: processes.command_line(each.pid) for each in found}
    named = {pid: line for pid, line in lines.items() if line not in ("", shell)}
    first = [named[p.pid] for p in found if p.pid in named and p.parent not in named]
    more = [f"{len(first) - _MOST_NAMED} more"] if len(first) > _MOST_NAMED else []
    return [f"`{shortened(line)}`" for line in first[:_MOST_NAMED]] + more


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
