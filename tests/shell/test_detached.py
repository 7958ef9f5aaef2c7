"""A command that a person sends to the background while it runs."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from agentcli.errors import TurnInterrupted
from agentcli.shell.interpreter import CommandResult
from agentcli.shell.shell import Shell
from agentcli.system import processes
from agentcli.workspace.private import OutputFolder
from tests.shell.shells import is_alive, make_shell, needs_proc, sound, until


def send_when(shell: Shell, shown: str) -> Callable[[str], None]:
    """Has what runs sent to the background, by another thread, once it has written `shown`."""
    output: list[str] = []

    def on_output(text: str) -> None:
        before = "".join(output)
        output.append(text)
        if shown in before + text and shown not in before:
            thread = Thread(target=shell.send_to_background)
            thread.start()
            thread.join()

    return on_output


def sent(shell: Shell, command: str, shown: str = "on") -> CommandResult:
    return shell.run(command, on_output=send_when(shell, shown))


def test_it_goes_on_and_the_shell_takes_the_next_command(shell: Shell) -> None:
    shell.run("export given=1; own=2; help_me() { :; }; mkdir below; mkfifo gate")
    folder = shell.cwd
    result = sent(shell, f"cd below; echo on; read x <{folder}/gate; echo $given$own; exit 4")
    assert (result.output, result.exit_code, result.job_id) == ("on\n", None, "job-1")
    assert result.cwd == folder
    assert "the user sent this command to the background" in result.notes[0]
    assert "variables, functions and aliases are lost" in result.notes[1]
    assert shell.run("echo $PWD $given $own").output == f"{folder} 1\n"
    assert shell.job_status("job-1").exit_code is None
    shell.run("echo >gate")
    until(lambda: shell.job_status("job-1").exit_code == 4)
    assert shell.job_status("job-1").output == "on\n12\n"
    assert Path(result.full_output_path or "").read_text() == "on\n12\n"
    sound(shell)


def test_all_that_it_writes_is_kept_as_far_as_the_session_has_room(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    shell.outputs = OutputFolder(tmp_path / "outputs", 1_000_000)
    shell.run("mkfifo gate")
    result = sent(shell, "seq 50000; echo on; read x <gate; seq 50001 300000")
    shell.run("echo >gate")
    until(lambda: shell.job_status("job-1").exit_code == 0)
    kept = Path(result.full_output_path or "").read_text()
    lines = "".join(f"{number}\n" for number in range(1, 300_001)).replace(
        "\n50001\n", "\non\n50001\n"
    )
    assert kept == lines[:1_000_000]
    assert "lines" in result.output
    shell.close()


@needs_proc
def test_it_is_stopped_with_all_it_started_and_no_more_of_its_line_runs(shell: Shell) -> None:
    shell.run("sleep 1000 &")
    # What began in one tick of the kernel's clock can't be told apart by its time.
    began = processes.ticks_now()
    until(lambda: processes.ticks_now() > began)
    sent(shell, "sleep 1000 & echo on; sleep 1000; touch after")
    pid = shell.jobs[0].pid
    assert pid is not None
    until(lambda: len(processes.descendants(pid)) == 3)
    before, *below = sorted(process.pid for process in processes.descendants(pid))
    assert shell.stop_job("job-1").exit_code == 128 + signal.SIGINT
    until(lambda: not any(map(is_alive, below)))
    assert is_alive(before)
    assert shell.run("ls after").exit_code == 2
    assert shell.stop_job("job-1").exit_code == 128 + signal.SIGINT
    shell.end_all()
    until(lambda: not is_alive(before))


@needs_proc
@pytest.mark.parametrize("ending", [Shell.restart, Shell.end_all])
def test_it_ends_with_the_shell(shell: Shell, ending: Callable[[Shell], object]) -> None:
    sent(shell, "echo on; sleep 1000")
    pid = shell.jobs[0].pid
    assert pid is not None
    ending(shell)
    until(lambda: not is_alive(pid))
    assert shell.jobs[0].over


def test_a_command_beside_the_shell_leaves_that_as_it_is(shell: Shell) -> None:
    shell.run("own=2; mkfifo gate")
    on_output = send_when(shell, "on")
    command = "export made=1; echo on; cat gate; exit 3"
    result = shell.run_wider(command, shell.sandbox, on_output=on_output)
    assert result.job_id == "job-1"
    assert len(result.notes) == 1
    assert shell.run("echo $own$made; echo >gate").output == "2\n"
    until(lambda: shell.job_status("job-1").exit_code == 3)


def test_a_key_that_came_too_late_sends_nothing(shell: Shell) -> None:
    assert not shell.send_to_background()
    bash = shell._ready()[0]
    bash.terminal.wake()
    sound(shell)
    assert shell.jobs == ()


def test_an_interrupt_ends_what_runs_in_front_only(shell: Shell) -> None:
    sent(shell, "echo on; sleep 1000")

    def interrupt(text: str) -> None:
        if "two" in text:
            raise TurnInterrupted("interrupted", 130)

    with pytest.raises(TurnInterrupted):
        shell.run("echo two; sleep 1000", on_output=interrupt)
    assert not shell.job_status("job-1").exit_code
    sound(shell)
