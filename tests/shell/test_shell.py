"""The persistent shell against a real bash: each command gets its own output and status."""

from __future__ import annotations

import os
import resource
import shutil
import stat
from pathlib import Path

import pytest

from agentcli.shell.interpreter import CommandResult
from agentcli.shell.shell import Shell
from tests.shell.shells import around, is_alive, make_shell, needs_proc, sound, until

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
    assert names - bash_sets == {"PATH", "HOME", "TERM", "KEPT", "AGENT_SHELL_ID", "AGENT_OUT"}
    assert not (tmp_path / ".bash_history").exists()


def test_no_stream_of_a_command_is_a_terminal(shell: Shell) -> None:
    tested = "for n in 0 1 2; do [ -t $n ] && echo $n; done"
    assert shell.run(f"{tested}; : </dev/tty && echo x").output == "x\n"
    assert shell.run(tested, stdin=True).output == "0\n1\n2\n"
    result = shell.run("echo a; echo b >/dev/tty; echo c >&2")
    assert sorted(result.output) == sorted("a\nb\nc\n")
    sound(shell)


def test_stdin_is_empty(shell: Shell) -> None:
    assert shell.run("cat; read x; echo $?").output == "1\n"


def test_no_echo_no_prompt_no_job_noise(shell: Shell) -> None:
    assert shell.run("sleep 0 & sleep 0 & wait; echo x").output == "x\n"
    assert shell.run("jobs").output == ""


@needs_proc
def test_command_file_is_private_and_pipes_are_not_inherited(shell: Shell, tmp_path: Path) -> None:
    shell.run("true")
    (folder,) = (tmp_path / "scratch").glob("bash-*")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "script").stat().st_mode) == 0o600
    listed = shell.run("ls -l /proc/self/fd").output.replace(str(folder / "output"), "")
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


ENDINGS = {"exit 3": 3, "set -e; false": 1, "exec sleep 0": 0, "kill -9 $$": 137}


@pytest.mark.parametrize(("ending", "code"), ENDINGS.items(), ids=ENDINGS)
def test_shell_that_ends_is_replaced(shell: Shell, ending: str, code: int) -> None:
    shell.run("cd /; x=1")
    result = shell.run(f"echo before; {ending}")
    assert (result.output, result.exit_code, result.cwd) == ("before\n", code, "/")
    assert "restarted in /;" in result.notes[0]
    sound(shell)
    assert shell.run("echo $x$PWD").output == "/\n"


def test_shell_that_dies_between_commands(shell: Shell) -> None:
    pid = shell.run("true").pid
    assert pid is not None
    os.kill(pid, 9)
    until(lambda: not is_alive(pid))
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


@pytest.mark.parametrize("text", ['echo "abc', "echo )", "if true; then"])
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


def test_shell_survives_the_loss_of_its_files(shell: Shell, tmp_path: Path) -> None:
    shell.run("true")
    shutil.rmtree(tmp_path / "scratch")
    result = shell.run("echo hi")
    assert result.output == "hi\n"
    assert "lost its files" in result.notes[0]
    sound(shell)


def test_return_at_top_level_and_stray_break(shell: Shell) -> None:
    assert shell.run("return 5").exit_code == 5
    assert "only meaningful" in shell.run("break").output
    sound(shell)


# Output


def test_live_output_is_complete_and_in_order(shell: Shell) -> None:
    pieces: list[str] = []
    result = shell.run("for i in $(seq 500); do echo é $i; done", on_output=pieces.append)
    assert "".join(pieces) == result.output == "".join(f"é {i}\n" for i in range(1, 501))


def test_long_output_is_cut_on_lines_and_kept_on_disk(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, max_chars=2000)
    result = shell.run("seq 100000")
    shell.close()
    assert result.truncated
    assert result.full_output_path is not None
    lines = result.output.splitlines()
    (gap,) = [line for line in lines if line.startswith("[…")]
    shown = lines.index(gap)
    assert lines[:shown] == [str(n) for n in range(1, shown + 1)]
    rest = lines[shown + 1 :]
    assert rest == [str(n) for n in range(100_001 - len(rest), 100_001)]
    assert f"lines {shown + 1}-{100_000 - len(rest)} of 100,000" in gap
    assert f"$AGENT_OUT/{Path(result.full_output_path).name}" in gap
    whole = Path(result.full_output_path).read_text().splitlines()
    assert whole == [str(n) for n in range(1, 100_001)]
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


def test_restart_forgets_variables_and_keeps_the_folder(shell: Shell) -> None:
    shell.run("cd /; x=1")
    shell.restart()
    assert shell.run("echo $x$PWD").output == "/\n"


def test_prefix_is_put_before_bash(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, sandbox=around("env", "ADDED=1"))
    assert shell.run("echo $ADDED; sleep 0 | cat").output == "1\n"
    shell.close()


def test_shell_that_cannot_start_is_an_error(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, sandbox=around("sh", "-c", "echo broken; exit 9"))
    with pytest.raises(OSError, match="broken"):
        shell.run("true")
    missing = make_shell(tmp_path, sandbox=around("/nonexistent/sandbox"))
    with pytest.raises(OSError, match="nonexistent"):
        missing.run("true")
    shell.close()
    missing.close()
