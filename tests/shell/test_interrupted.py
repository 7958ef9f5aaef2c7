"""An interrupt at the moment at which a process has been started: it is known, and ended."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcli import interrupts
from agentcli.errors import TurnInterrupted
from agentcli.hooks.runner import HookRunner
from agentcli.shell.bash import Bash
from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from agentcli.shell.terminal import Terminal
from agentcli.system import processes
from tests.shell.shells import around, needs_proc, until


@pytest.fixture
def struck(monkeypatch: pytest.MonkeyPatch) -> Callable[[type], None]:
    """Has an interrupt come right after an object of some type is made, once."""

    def strike(kind: type) -> None:
        real = kind.__init__
        left = [1]

        def made(self: object, *arguments: object, **options: object) -> None:
            real(self, *arguments, **options)
            if left and left.pop():
                interrupts.interrupt(TurnInterrupted("interrupted", 130))

        monkeypatch.setattr(kind, "__init__", made)

    return strike


@needs_proc
def test_a_hook_that_was_just_started_is_ended(tmp_path: Path, struck) -> None:
    runner = HookRunner(tmp_path, {"PATH": os.environ["PATH"], "TEST_MARK": str(tmp_path)})
    struck(subprocess.Popen)
    with pytest.raises(TurnInterrupted):
        runner("setsid sleep 1000 & sleep 1000", b"", 60, lambda: None)
    until(lambda: not processes.with_environment(f"TEST_MARK={tmp_path}"))
    assert runner("echo on", b"", 60, lambda: None).stdout == "on"


@needs_proc
def test_a_shell_that_was_just_started_is_used_by_the_next_command(shell: Shell, struck) -> None:
    struck(Terminal)
    with pytest.raises(TurnInterrupted):
        shell.run("true")
    mark = f"{processes.ENVIRONMENT_MARK}={shell.identity}"
    [running] = processes.with_environment(mark)
    assert shell.run("echo on").output == "on\n"
    assert shell.run("true").pid == running.pid


@needs_proc
def test_a_shell_with_more_rights_is_ended(shell: Shell, struck) -> None:
    """Whether it was just started, or ran its command to the end."""
    kept = shell.run("true").pid
    mark = f"{processes.ENVIRONMENT_MARK}={shell.identity}"
    for kind in (Terminal, Bash):
        struck(kind)
        with pytest.raises(TurnInterrupted):
            shell.run_wider("true", around())
        assert [process.pid for process in processes.with_environment(mark)] == [kept]
    assert shell.run_wider("echo on", around()).output == "on\n"
    assert [process.pid for process in processes.with_environment(mark)] == [kept]


@needs_proc
def test_an_interpreter_that_was_just_started_is_used_by_the_next_cell(
    python: PythonInterpreter, struck
) -> None:
    struck(Terminal)
    with pytest.raises(TurnInterrupted):
        python.run("1")
    assert python.run("x = 1").output == ""
    mark = f"{processes.ENVIRONMENT_MARK}={python.identity}"
    assert len(processes.with_environment(mark)) == 1
