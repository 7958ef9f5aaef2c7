"""The persistent shell against a real bash: stopping, answering, background processes."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from agentcli.shell.shell import Shell
from agentcli.system import processes
from tests.shell.shells import is_alive, make_shell, needs_proc, sound, until

# Stopping

STUBBORN = (
    'python3 -c "import signal, time\n'
    "for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
    "print('set', flush=True)\n"
    'time.sleep(1000)"'
)


@pytest.mark.parametrize(
    ("command", "codes"),
    [
        ("sleep 1000\necho no", {130}),
        ("sleep 1000 | cat; echo no", {130}),
        ("while :; do sleep 1000; done; echo no", {130}),
        ("while :; do :; done\necho no", {130}),
        ("stty raw </dev/tty; sleep 1000", {130}),
        ("(trap '' INT; exec sleep 1000)", {130, 143}),
        ("trap '' INT; while :; do :; done", {137}),
    ],
)
def test_timeout(shell: Shell, command: str, codes: set[int]) -> None:
    shell.run("cd /")
    result = shell.run(command, timeout=0.2)
    assert (result.timed_out, result.cwd) == (True, "/")
    assert result.exit_code in codes
    assert "no" not in result.output
    assert "in the background" in result.notes[0]
    assert result.duration_s < 0.2 + 5 + 1
    sound(shell)


def test_timeout_of_a_stubborn_program(shell: Shell) -> None:
    shell.run("x=kept")
    result = shell.run(STUBBORN, timeout=1.0)
    assert result.exit_code in (130, 137)
    assert shell.run("echo $x").output == "kept\n"


@needs_proc
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("(echo a; echo b; sleep 1000) | tail -1; echo no", "b\n"),
        ("(echo a; echo b; sleep 1000) | cat | tail -1\necho no", "b\n"),
        ("for i in 1 2; do (echo a; sleep 1000) | tail -1 && echo no; done; echo no", "a\n"),
        ("{ echo a; sleep 1000; } | { read x; read y; echo $x; }; echo no", "a\n"),
        ("cat /dev/zero | tail -c 5; echo no", "␀␀␀␀␀"),
        ("sleep 1000 | (trap '' INT; cat; sleep 1000); echo no", ""),
    ],
)
def test_the_end_of_a_pipe_prints_what_it_has(shell: Shell, command: str, output: str) -> None:
    result = shell.run(command, timeout=0.5)
    assert result.timed_out
    assert result.output.replace("Terminated", "").strip() == output.strip()
    sound(shell)


@needs_proc
def test_a_timeout_tells_what_ran_and_what_had_ended(shell: Shell) -> None:
    (note,) = shell.run("cd /tmp; false\ntrue && ls /nope; sleep 1000 | cat", timeout=0.5).notes
    assert "when `sleep 1000` (" in note
    assert "`cd /tmp` had exit 0, `false` had exit 1, `true && ls /nope` had exit 2." in note
    assert "The shell is alive, in /tmp." in note
    (note,) = shell.run("sh -c 'sleep 1000; :'", timeout=0.5).notes
    assert "`sleep 1000` (" in note
    assert "in `sh -c 'sleep 1000; :'` (" in note
    (note,) = shell.run("while :; do :; done", timeout=0.2).notes
    assert "a loop or builtin" in note


def test_endless_output_ends_with_the_timeout(shell: Shell) -> None:
    result = shell.run("yes", timeout=0.3)
    assert (result.exit_code, result.truncated) == (130, True)
    assert len(result.output) < 31_000
    sound(shell)


@needs_proc
def test_exception_in_a_callback_stops_the_command(shell: Shell) -> None:
    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    shell.run("x=kept")
    for _ in range(10):
        with pytest.raises(KeyboardInterrupt):
            shell.run("echo a; sleep 1000; echo b", on_output=interrupt)
        assert shell.last_result is not None
        assert shell.last_result.output.startswith("a\n")
        assert "interrupted" in shell.last_result.notes
        assert shell.run("echo $x").output == "kept\n"
    pid = shell.run("true").pid
    assert pid is not None
    assert not processes.descendants(pid)


def test_real_signals_while_a_stubborn_command_runs(shell: Shell) -> None:
    def interrupt(_: str) -> None:
        shell_pid = os.getpid()
        os.kill(shell_pid, signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        shell.run(STUBBORN, on_output=interrupt)
    assert shell.last_result is not None
    sound(shell)


def test_second_exception_kills_at_once(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    shell.run("cd /")
    monkeypatch.setattr("agentcli.shell.interpreter.stop", interrupt)
    with pytest.raises(KeyboardInterrupt):
        shell.run("sleep 1000", on_output=None, timeout=0.05)
    monkeypatch.undo()
    assert shell.last_result is not None
    assert shell.last_result.exit_code == 137
    sound(shell)


# Input


@needs_proc
def test_reading_the_terminal_is_recognised_and_answered(shell: Shell) -> None:
    result = shell.run("printf 'Name: '; read x </dev/tty; echo \"got $x\"; (exit 4)")
    assert (result.output, result.exit_code) == ("Name: ", None)
    assert result.waiting_for_input
    answered = shell.send_input("Ann B")
    assert (answered.output, answered.exit_code) == ("got Ann B\n", 4)
    with pytest.raises(ValueError, match="no command"):
        shell.send_input("x")
    sound(shell)


@needs_proc
def test_stdin_can_be_the_terminal(shell: Shell) -> None:
    assert shell.run("cat -n", stdin=True).waiting_for_input
    assert shell.send_input("a\nb").output.split() == ["1", "a", "2", "b"]
    ended = shell.send_input("\x04")
    assert (ended.output, ended.exit_code) == ("", 0)
    with pytest.raises(ValueError, match="no command"):
        shell.send_input("x" * 5000)


@needs_proc
def test_too_long_an_answer_is_refused(shell: Shell) -> None:
    shell.run("read x </dev/tty")
    with pytest.raises(ValueError, match="4000"):
        shell.send_input("x" * 5000)
    assert shell.send_input("y").exit_code == 0


@needs_proc
def test_new_command_stops_the_waiting_one(shell: Shell) -> None:
    shell.run("read x </dev/tty; echo never")
    result = shell.run("echo new")
    assert (result.output, result.exit_code) == ("new\n", 0)
    assert "was stopped" in result.notes[0]


@needs_proc
def test_unread_answer_is_not_run_as_a_command(shell: Shell) -> None:
    shell.run("read x </dev/tty")
    shell.send_input("a\necho LEFT >left\necho b")
    assert shell.run("ls").output == ""
    assert shell.run("cat", stdin=True).output == ""


# Processes


def test_background_child_does_not_delay_the_end(shell: Shell) -> None:
    result = shell.run("sleep 1000 & echo started")
    assert (result.output, result.exit_code) == ("started\n", 0)
    assert not result.timed_out


def test_late_output_is_told_apart(shell: Shell) -> None:
    shell.run("mkfifo gate; (read x <gate; echo late; echo >gate) &")
    shell.run("echo >gate; read x <gate")
    result = shell.run("echo now")
    assert result.output.endswith("now\n")


@needs_proc
def test_close_leaves_no_process_behind(tmp_path: Path) -> None:
    shell = make_shell(tmp_path)
    shell.run("setsid sleep 1000 & nohup sleep 1000 & (sleep 1000 &)")
    shell.run_in_background("sleep 1000 & setsid sleep 1000")
    entry = f"{processes.ENVIRONMENT_MARK}={shell.identity}"
    until(lambda: len(processes.with_environment(entry)) >= 6)
    shell.close()
    until(lambda: not processes.with_environment(entry))
    assert list((tmp_path / "scratch").iterdir()) == []


def test_background_job(shell: Shell) -> None:
    shell.run("cd /; word=hello; mkfifo $HOME/gate")
    started = shell.run_in_background('echo $word $PWD; read x <"$HOME/gate"; exit 4')
    assert (started.exit_code, started.job_id, started.cwd) == (None, "job-1", "/")
    assert started.full_output_path is not None
    assert [job.job_id for job in shell.jobs] == ["job-1"]
    until(lambda: shell.job_status("job-1").output == "hello /\n")
    assert shell.job_status("job-1").exit_code is None
    assert shell.run("jobs; echo free").output == "free\n"
    shell.run("echo go >$HOME/gate")
    until(lambda: shell.job_status("job-1").exit_code is not None)
    assert shell.job_status("job-1").exit_code == 4
    assert Path(started.full_output_path).read_text() == "hello /\n"
    with pytest.raises(ValueError, match="known: job-1"):
        shell.job_status("job-9")


@needs_proc
def test_stopped_job_takes_its_children_along(shell: Shell) -> None:
    shell.run_in_background("echo on; setsid sleep 1000 & sleep 1000")
    until(lambda: shell.job_status("job-1").output == "on\n")
    below = [process.pid for process in processes.descendants(shell.jobs[0].pid)]
    assert len(below) >= 2
    result = shell.stop_job("job-1")
    assert result.exit_code == 143
    assert shell.stop_job("job-1").exit_code in (137, 143)
    until(lambda: not any(map(is_alive, below)))
    sound(shell)


@needs_proc
@pytest.mark.parametrize("ending", [Shell.restart, lambda shell: shell.run("exit 3")])
def test_a_job_ends_with_its_shell_and_that_is_said(
    shell: Shell, ending: Callable[[Shell], object]
) -> None:
    shell.run_in_background("env -i setsid sleep 1000 & sleep 1000")
    shell.run_in_background("exit 4")
    until(lambda: shell.job_status("job-2").exit_code == 4)
    pid = shell.jobs[0].pid
    assert pid is not None
    until(lambda: len(processes.descendants(pid)) >= 2)
    below = [process.pid for process in processes.descendants(pid)]
    ending(shell)
    assert not any(map(is_alive, [pid, *below]))
    assert "ended with the shell: job-1" in shell.run("true").notes
    assert shell.job_status("job-1").exit_unknown
    assert shell.job_status("job-2").exit_code == 4
    shell.restart()
    assert shell.run("true").notes == ()
