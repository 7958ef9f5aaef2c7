"""Exported variables of a real bash: each result tells what changed, a new shell starts with it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentcli.shell.output import Capture
from agentcli.shell.shell import Shell
from agentcli.shell.terminal_request import Outcome, TerminalRequest
from agentcli.shell.variables import WITHHELD
from tests.shell.shells import around, exported, make_shell, needs_proc, sound, until
from tests.shell.test_shell import TWISTS

# What a result tells


def test_a_result_tells_what_its_command_exported_changed_and_unset(shell: Shell) -> None:
    result = shell.run("export NEW='x\n=y' KEPT=c; local_only=1; unset HOME; false")
    assert (result.exports, result.exit_code) == ({"NEW": "x\n=y", "KEPT": "c", "HOME": None}, 1)
    assert shell.run("echo $?").exports == {}
    assert shell.run("NEW=z; export -n KEPT").exports == {"NEW": "z", "KEPT": None}


def test_what_bash_keeps_for_itself_is_no_change(shell: Shell) -> None:
    assert shell.run("cd /; export PS1=x LINES=3; bash -c :; f() { :; }; export -f f").exports == {}
    assert shell.run("set -a; cd /tmp; x=1").exports == {"x": "1"}
    assert shell.run("cd /").exports == {}


def test_secrets_by_name_are_withheld_from_the_result_but_not_from_the_shell(shell: Shell) -> None:
    assert shell.run("export CI_TOKEN=abc").exports == {"CI_TOKEN": WITHHELD}
    shell.restart()
    assert shell.run("echo $CI_TOKEN").output == "abc\n"


def test_a_stopped_command_has_exported_what_it_has(shell: Shell) -> None:
    assert shell.run("export A=1; sleep 1000", timeout=0.2).exports == {"A": "1"}


@needs_proc
def test_a_command_that_waits_for_input_tells_at_its_end(shell: Shell) -> None:
    assert shell.run("export A=1; read B </dev/tty; export B").exports == {}
    assert shell.send_input("b").exports == {"A": "1", "B": "b"}


@needs_proc
def test_the_next_result_tells_for_a_command_that_was_dropped(shell: Shell) -> None:
    shell.run("export A=1; read x </dev/tty")
    assert shell.run("export B=1").exports == {"A": "1", "B": "1"}


CHANGED = {"NEW": 'a\n\x1e"é', "KEPT": "c"}
HOSTILE = {
    **TWISTS,
    "own functions": "export() { :; }; declare() { :; }; compgen() { :; }; unset() { :; }",
    "nothing left": "builtin() { :; }; printf() { :; }; export() { :; }; unset() { :; }",
    "false builtin": "builtin() { false; }; alias export=false",
    "no export": "enable -n export compgen",
    "no builtins": "enable -n builtin printf",
    "strict": "set -eu; set -f; IFS=' x'",
    "no files": "ulimit -f 0",
    "traps": "trap 'echo D' DEBUG; trap 'echo E' ERR",
    "telling trap": "trap 'LAST=$BASH_COMMAND' DEBUG",
    "locale": "LC_ALL=C",
    "trace to stdout": "BASH_XTRACEFD=1; set -x; set +x",
    "read-only": "readonly HOME POSIXLY_CORRECT=",
}


@pytest.mark.parametrize("twist", HOSTILE.values(), ids=HOSTILE)
def test_exports_of_a_twisted_shell(shell: Shell, twist: str) -> None:
    assert not shell.run(twist).notes
    assert (
        shell.run("command declare -x NEW=$'a\\n\\036\"é' KEPT=c").exports.items()
        >= CHANGED.items()
    )
    assert not shell.run("command :").exports.keys() & CHANGED


def test_lost_builtins_hide_changes_and_break_nothing(shell: Shell) -> None:
    shell.run("export A=1; enable -n export declare printf")
    assert shell.run("A=2").exports in ({}, {"A": "2"})
    assert shell.run("enable export declare printf; echo on").output == "on\n"
    assert shell.run("A=3").exports == {"A": "3"}


def test_a_large_environment_is_listed_when_a_command_may_change_it(shell: Shell) -> None:
    shell.run("hide() { export KEPT=hidden; }")
    filled = shell.run("for i in {1..50}; do printf -v V$i %2000s; export V$i; done")
    assert len(filled.exports) == 50
    assert shell.run("hide").exports == {}
    assert shell.run("export A=1; unset V1").exports == {"A": "1", "KEPT": "hidden", "V1": None}
    sound(shell)


def test_a_report_in_many_pieces_leaves_the_output_whole(tmp_path: Path) -> None:
    class Terminal:
        """Output without a first mark, then a listing and a report byte by byte."""

        ended = False

        def __init__(self) -> None:
            report = b'\x1eXn1\x1edeclare -x A="1"\n\x1eFn1:0::/\x1e'
            self.pieces = [(b"out\n", b"", b""), *((b"", b"", bytes([byte])) for byte in report)]
            self.pieces.append((b"\x1eEn1\x1e", b"\x1eEn1\x1e", b""))

        def pump(self, timeout: float) -> tuple[bytes, bytes, bytes]:
            return self.pieces.pop(0)

    request = TerminalRequest(
        Terminal(), "n1", Capture(tmp_path / "log", keep=100), is_report=lambda text: True
    )
    assert request.wait(30) is Outcome.DONE
    assert request.capture.render(100).text == "out\n"
    assert (request.report, request.listing) == (("F", "0::/"), b'declare -x A="1"\n')


def test_values_larger_than_a_pipe_pass(shell: Shell) -> None:
    assert shell.run("printf -v BIG %300000s; export BIG A=1").exports == {"A": "1"}
    sound(shell)
    assert shell.run("unset BIG").exports == {"BIG": None}


# What a shell starts with


def test_a_shell_starts_with_the_exports_of_an_earlier_one(tmp_path: Path) -> None:
    exports = {"NEW": "it's\n$x", "KEPT": None, "TERM": "vt100", "AGENT_SHELL_ID": "other"}
    shell = make_shell(tmp_path, exports=exported(exports))
    show = 'printf "%s|" "$NEW" "${KEPT-unset}" "$TERM"'
    first = shell.run(show)
    assert (first.output, first.exports) == ("it's\n$x|unset|vt100|", {})
    assert shell.run("echo $AGENT_SHELL_ID").output == f"{shell.identity}\n"
    shell.restart()
    assert shell.run(show).output == first.output
    shell.run_in_background(show)
    until(lambda: shell.job_status("job-1").output == first.output)
    shell.close()


def test_the_first_result_tells_what_the_shell_was_given_to_tell(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, first_notes=["CI_TOKEN is not restored"])
    assert shell.run("true").notes == ("CI_TOKEN is not restored",)
    assert shell.run("true").notes == ()
    shell.close()


@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$", "trap '' INT; while :; do :; done"])
def test_a_shell_that_is_replaced_keeps_what_earlier_commands_exported(
    shell: Shell, end: str
) -> None:
    told = [shell.run("export A=1 B=1; f() { :; }; x=1").exports]
    ended = shell.run(f"export B=2; {end}", timeout=0.3)
    assert "variables exported by earlier commands are kept" in ended.notes[-1]
    told += [ended.exports, shell.run("export C=1").exports]
    assert shell.run("echo $A $B $C $x; type -t f").output == "1 1 1\n"
    assert exported(*told).inside("none", {}) == {"A": "1", "B": "1", "C": "1"}


def test_an_activated_virtual_environment_comes_back(tmp_path: Path) -> None:
    first = make_shell(tmp_path)
    create = f"{sys.executable} -m venv --without-pip .venv && export PYTHONHOME=/nowhere"
    told = [first.run(create).exports, first.run(". .venv/bin/activate").exports]
    exports = exported(*told)
    assert exports.inside("none", {})["PYTHONHOME"] is None
    first.close()
    second = make_shell(tmp_path, exports=exports)
    found = second.run("command -v python; echo ${PYTHONHOME-unset}; echo $VIRTUAL_ENV").output
    venv = tmp_path / "work" / ".venv"
    assert found == f"{venv}/bin/python\nunset\n{venv}\n"
    second.close()


def test_what_is_around_bash_sees_nothing_of_the_exports(tmp_path: Path) -> None:
    spy = around("sh", "-c", 'echo "$A$PATH" >seen; exec "$@"', "sh")
    shell = make_shell(tmp_path, sandbox=spy, exports=exported({"A": "1", "PATH": "/evil"}))
    assert shell.run("echo $A $PATH").output == "1 /evil\n"
    assert "evil" not in (tmp_path / "work" / "seen").read_text()
    shell.close()


def test_values_do_not_stay_on_disk(tmp_path: Path) -> None:
    shell = make_shell(tmp_path, exports=exported({"A": "plain" + "value"}))
    shell.run("true")
    files = [path for path in (tmp_path / "scratch").rglob("*") if path.is_file()]
    assert files
    assert not any(b"plainvalue" in path.read_bytes() for path in files)
    shell.close()
