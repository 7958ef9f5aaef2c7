"""Stops a command at its time limit and reports what it was doing."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence

from agentcli.shell.bash import Bash
from agentcli.shell.exchange import Exchange, Outcome
from agentcli.shell.parts import ended_parts, shortened
from agentcli.system import processes
from agentcli.system.processes import ProcessStat


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
