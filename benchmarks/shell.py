"""What the session's shell adds to a command that does nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

from agentcli.shell.shell import Shell
from agentcli.workspace.private import OutputFolder
from benchmarks.bench import Bench
from benchmarks.report import Figure, figure

COMMANDS = 300
_SHELLS = 10
_COMMAND_MS = 3.0
_NEW_SHELL_MS = 30.0
_PART = "Shell"


def measure(bench: Bench) -> list[Figure]:
    """New shells until their first answer, then many commands in one."""
    folder = bench.scratch / "shell"
    folder.mkdir(exist_ok=True)
    new = [_until_first_answer(folder) for _ in range(_SHELLS + 1)][1:]
    shell = _shell(folder)
    try:
        shell.run("true")
        commands = [_timed(shell) for _ in range(COMMANDS)]
    finally:
        shell.close()
    return [
        figure(_PART, "new shell, until it has run `true`", new, "ms", _NEW_SHELL_MS),
        figure(_PART, f"`true`, median of {COMMANDS}", commands, "ms", _COMMAND_MS),
    ]


def _shell(folder: Path) -> Shell:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb"}
    return Shell(cwd=str(folder), env=env, scratch=folder, outputs=OutputFolder(folder))


def _until_first_answer(folder: Path) -> float:
    started = time.monotonic()
    shell = _shell(folder)
    try:
        shell.start()
        shell.run("true")
        return 1000 * (time.monotonic() - started)
    finally:
        shell.close()


def _timed(shell: Shell) -> float:
    started = time.monotonic()
    shell.run("true")
    return 1000 * (time.monotonic() - started)
