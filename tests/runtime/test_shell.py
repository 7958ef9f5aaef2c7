"""The persistent shell against a real bash: each command gets its own output and status."""

from __future__ import annotations

import os
import resource
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentcli.runtime import processes
from agentcli.runtime.shell import CommandResult, Shell

LIMIT_S = 30
HAS_PROC = Path("/proc/self/syscall").exists()
needs_proc = pytest.mark.skipif(not HAS_PROC, reason="needs /proc")


def make_shell(folder: Path, **options: object) -> Shell:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "KEPT": "a b"}
    (folder / "outputs").mkdir(exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    return Shell(
        cwd=str(folder / "work"),
        env=env,
        scratch=folder / "scratch",
        outputs=folder / "outputs",
        **options,
    )


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = make_shell(tmp_path)
    yield shell
    shell.close()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"


def sound(shell: Shell) -> None:
    """The shell gives the right output to the right command, and nothing else."""
    for word in ("one", "two"):
        result = shell.run(f"command printf '%s\\n' {word}")
        assert (result.output, result.exit_code) == (f"{word}\n", 0)
        assert not result.notes


# What a command sees


def test_output_status_and_folder(shell: Shell, tmp_path: Path) -> None:
    result = shell.run("echo out; echo err >&2; cd /; (exit 7)")
    assert result == CommandResult(
        output="out\nerr\n",
        exit_code=7,
        cwd="/",
        duration_s=result.duration_s,
        pid=result.pid,
    )
    assert shell.run("echo $?; pwd").output == "7\n/\n"


def test_variables_functions_and_options_survive(shell: Shell) -> None:
    shell.run("x='1 2'; f() { echo \"f $x\"; }; set -o noglob; alias hey='echo hey'")
    assert shell.run("f; echo *; hey").output == "f 1 2\n*\nhey\n"


def test_environment_is_as_given(shell: Shell, tmp_path: Path) -> None:
    names = {line.partition("=")[0] for line in shell.run("env").output.splitlines()}
    bash_sets = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert names - bash_sets == {"PATH", "HOME", "TERM", "KEPT", "AGENT_SHELL_ID"}
    assert not (tmp_path / ".bash_history").exists()


def test_stdin_is_empty(shell: Shell) -> None:
    assert shell.run("cat; read x; echo $?").output == "1\n"


def test_no_echo_no_prompt_no_job_noise(shell: Shell) -> None:
    assert shell.run("sleep 0 & sleep 0 & wait; echo x").output == "x\n"
    assert shell.run("jobs").output == ""


@needs_proc
def test_command_file_is_private_and_pipes_are_not_inherited(shell: Shell, tmp_path: Path) -> None:
    shell.run("true")
    (folder,) = (tmp_path / "scratch").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "script").stat().st_mode) == 0o600
    listed = shell.run("ls -l /proc/self/fd").output
    assert str(folder) not in listed


def test_foreign_text_is_made_harmless(shell: Shell) -> None:
    with pytest.raises(ValueError, match="NUL"):
        shell.run("echo a\0b")
    assert shell.run("echo a\ud800b").output == "a\ufffdb\n"
    sound(shell)


def test_large_commands(shell: Shell) -> None:
    assert shell.run(f"echo {'b' * 200_000} | wc -c").output.strip() == "200001"
    text = "line with 'quotes' \"and\" $(more)\t|\n" * 28_000
    result = shell.run(f"cat <<'EOF' | cksum\n{text}EOF\necho done")
    assert result.output.split()[1] == str(len(text))
    assert result.output.endswith("done\n")


def test_multi_line_command_with_heredoc(shell: Shell) -> None:
    result = shell.run("for i in 1 2\ndo\n  cat <<E\n$i\nE\ndone\n# end")
    assert result.output == "1\n2\n"


def test_binary_and_control_characters(shell: Shell) -> None:
    result = shell.run(r"printf 'a\0\001\377\033[31mred\033[0m\033]0;t\007\n10%%\r20%%\r\nx\r\n'")
    assert result.output == "a␀␁\ufffdred\n20%\nx\n"


# What commands do to the shell

TWISTS = {
    "functions": "builtin() { :; }; printf() { :; }; echo() { :; }; trap() { :; }",
    "aliases": "alias printf=false echo=false builtin=false .=false",
    "prompts": "PS1='P> '; PS2=q; PROMPT_COMMAND='echo PC'; PS0=zero",
    "raw": "stty raw echo </dev/tty",
    "ignored": "trap '' INT",
    "unset": "set -u; unset PS1 PWD",
    "errexit": "set -e",
    "extdebug": "shopt -s extdebug",
    "readonly": "readonly PS1 PWD IFS TERM",
    "no path": "PATH=",
    "posix": "set -o posix",
    "noclobber": "set -C",
    "noexec": "set -n",
    "ifs": "IFS=0123456789",
    "no job control": "set +m",
    "closed": "exec 200>&- 3>&- 0<&-",
    "allexport": "set -a",
    "history": "set -o history; set -H",
    "error trap": "trap 'echo ERR' ERR",
}


@pytest.mark.parametrize("twist", TWISTS.values(), ids=TWISTS)
def test_twisted_shell_still_answers_exactly(shell: Shell, twist: str) -> None:
    result = shell.run(twist)
    assert (result.output, result.exit_code, result.notes) == ("", 0, ())
    sound(shell)
    shell.run("x=1")
    assert shell.run("command printf '%s' \"$x\"").output == "1"


@pytest.mark.parametrize("again", ["set -x", "set -v"])
def test_traces_stay_within_their_command(shell: Shell, again: str) -> None:
    shell.run(again)
    result = shell.run("echo a")
    assert result.output.count("a\n") == 2
    assert "_agent" not in result.output
    assert "script" not in result.output
    assert not result.notes


def test_status_of_a_failing_command_under_noise(shell: Shell) -> None:
    shell.run("builtin() { :; }; printf() { :; }")
    result = shell.run("pwd; false")
    assert (result.output, result.exit_code) == (f"{shell.cwd}\n", 1)


ENDINGS = {
    "exit 3": 3,
    "set -e; false": 1,
    "exec sleep 0": 0,
    "kill -9 $$": 137,
    "exec /nonexistent": 0,
}


@pytest.mark.parametrize(("ending", "code"), ENDINGS.items(), ids=ENDINGS)
def test_shell_that_ends_is_replaced(shell: Shell, ending: str, code: int) -> None:
    shell.run("cd /; x=1")
    result = shell.run(f"echo before; {ending}")
    if ending == "exec /nonexistent":
        assert result.exit_code == 127
        return
    assert (result.output, result.exit_code, result.cwd) == ("before\n", code, "/")
    assert "restarted in /;" in result.notes[0]
    sound(shell)
    assert shell.run("echo $x$PWD").output == "/\n"


def test_shell_that_dies_between_commands(shell: Shell) -> None:
    pid = shell.run("true").pid
    assert pid is not None
    os.kill(pid, 9)
    until(lambda: not processes.is_alive(pid))
    result = shell.run("echo hi")
    assert result.output == "hi\n"
    assert "the shell ended (status 137)" in result.notes[0]


@needs_proc
@pytest.mark.parametrize("trick", ["shopt -s extdebug; trap false DEBUG", "set -r"])
def test_shell_that_no_longer_reports_is_replaced(shell: Shell, trick: str) -> None:
    assert "no longer answered" in shell.run(trick).notes[0]
    sound(shell)


def test_redirected_shell_still_reports(shell: Shell) -> None:
    result = shell.run("exec >/dev/null 2>&1; echo lost; false")
    assert (result.output, result.exit_code) == ("", 1)
    shell.run("exec >/dev/tty 2>&1")
    sound(shell)


@pytest.mark.parametrize("text", ['echo "abc', "echo )", "cat <<E\n$(", "if true; then"])
def test_syntax_errors(shell: Shell, text: str) -> None:
    result = shell.run(text)
    assert result.exit_code == 2
    assert result.output.startswith("bash: line ")
    sound(shell)


def test_deleted_folder(shell: Shell) -> None:
    above = shell.run("pwd").cwd
    shell.run("mkdir gone; cd gone; rmdir ../gone")
    assert shell.run("echo here").output == "here\n"
    assert shell.run("exit 1").cwd == above
    sound(shell)


def test_return_at_top_level_and_stray_break(shell: Shell) -> None:
    assert shell.run("return 5").exit_code == 5
    assert "only meaningful" in shell.run("break").output
    sound(shell)


# Stopping

STUBBORN = (
    'python3 -c "import signal, time\n'
    "for s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\n"
    "print('set', flush=True)\n"
    'time.sleep(1000)"'
)


@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("sleep 1000\necho no", 130),
        ("sleep 1000 | cat; echo no", 130),
        ("while :; do sleep 1000; done; echo no", 130),
        ("while :; do :; done\necho no", 130),
        ("stty raw </dev/tty; sleep 1000", 130),
        ("(trap '' INT; exec sleep 1000)", 143),
        ("trap '' INT; while :; do :; done", 137),
    ],
)
def test_timeout(shell: Shell, command: str, code: int) -> None:
    shell.run("cd /")
    result = shell.run(command, timeout=0.2)
    assert (result.timed_out, result.exit_code, result.cwd) == (True, code, "/")
    assert "no" not in result.output
    assert "in the background" in result.notes[0]
    assert result.duration_s < 0.2 + 5 + 1
    sound(shell)


def test_timeout_of_a_stubborn_program(shell: Shell) -> None:
    shell.run("x=kept")
    result = shell.run(STUBBORN, timeout=1.0)
    assert result.exit_code == 137
    assert shell.run("echo $x").output == "kept\n"


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


def test_second_exception_kills_at_once(shell: Shell) -> None:
    calls = []

    def interrupt(text: str) -> None:
        calls.append(text)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        shell.run(STUBBORN, on_output=interrupt)
    assert len(calls) == 1
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
    identity = shell.run("echo $AGENT_SHELL_ID").output.strip()
    entry = f"{processes.ENVIRONMENT_MARK}={identity}"
    until(lambda: len(processes.marked(entry)) >= 6)
    shell.close()
    until(lambda: not [p for p in processes.marked(entry) if processes.is_alive(p)])
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
    below = processes.descendants(shell.jobs[0].pid)
    result = shell.stop_job("job-1")
    assert result.exit_code == 143
    assert shell.stop_job("job-1").exit_code in (137, 143)
    until(lambda: not any(processes.is_alive(pid) for pid in below))
    sound(shell)


def test_job_survives_a_restart_of_the_shell(shell: Shell) -> None:
    shell.run_in_background("sleep 1000")
    shell.restart()
    sound(shell)
    assert shell.job_status("job-1").exit_code is None


# Output


def test_live_output_is_complete_and_in_order(shell: Shell) -> None:
    pieces: list[str] = []
    result = shell.run("for i in $(seq 2000); do echo é $i; done", on_output=pieces.append)
    assert "".join(pieces) == result.output == "".join(f"é {i}\n" for i in range(1, 2001))


def test_long_output_is_cut_on_lines_and_kept_on_disk(shell: Shell) -> None:
    result = shell.run("seq 100000", output_limit=2000)
    assert result.truncated
    assert result.full_output_path is not None
    lines = result.output.splitlines()
    (gap,) = [line for line in lines if line.startswith("[…")]
    shown = lines.index(gap)
    assert lines[:shown] == [str(n) for n in range(1, shown + 1)]
    rest = lines[shown + 1 :]
    assert rest == [str(n) for n in range(100_001 - len(rest), 100_001)]
    assert f"lines {shown + 1}-{100_000 - len(rest)} of 100,000" in gap
    see = gap[gap.index("sed -n") : gap.rindex(" …]")]
    hidden = shell.run(see, output_limit=10_000_000).output.splitlines()
    assert hidden == [str(n) for n in range(shown + 1, 100_001 - len(rest))]
    assert stat.S_IMODE(Path(result.full_output_path).stat().st_mode) == 0o600


def test_much_output_needs_little_memory_and_disk(shell: Shell) -> None:
    shell.run("true")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = shell.run("head -c 120000000 /dev/zero | tr '\\0' x; echo; echo end")
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert result.output.endswith("end\n")
    assert len(result.output) < 31_000
    assert grown_kb < 100_000
    assert result.full_output_path is not None
    assert Path(result.full_output_path).stat().st_size == 50_000_000


def test_nothing_is_lost_between_commands(shell: Shell) -> None:
    for i in range(100):
        assert shell.run(f"printf %5000s {i}").output == f"{i:>5000}"


# The shell's state


def test_exported_variables(shell: Shell) -> None:
    assert shell.exported()["KEPT"] == "a b"
    shell.run("export NEW='x\n=y' ; local_only=1; unset KEPT; false")
    exported = shell.exported()
    assert exported["NEW"] == "x\n=y"
    assert not {"local_only", "KEPT", "_", "AGENT_SHELL_ID"} & set(exported)
    assert shell.run("echo $?").output == "1\n"
    shell.run("printf() { :; }; exit 1")
    assert "NEW" not in shell.exported()


def test_restart_forgets_variables_and_keeps_the_folder(shell: Shell) -> None:
    shell.run("cd /; x=1")
    shell.restart()
    assert shell.run("echo $x$PWD").output == "/\n"


def test_prefix_is_put_before_bash(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, argv_prefix=("env", "ADDED=1"))
    assert shell.run("echo $ADDED; sleep 0 | cat").output == "1\n"
    shell.close()


def test_shell_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, argv_prefix=("sh", "-c", "echo broken; exit 9"))
    with pytest.raises(OSError, match="broken"):
        shell.run("true")
    missing = make_shell(tmp_path, argv_prefix=("/nonexistent/sandbox",))
    with pytest.raises(OSError, match="nonexistent"):
        missing.run("true")
    shell.close()
    missing.close()
