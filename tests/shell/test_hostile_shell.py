"""A shell or an interpreter that lies: whatever commands write where we listen, nothing outside
breaks, hangs, grows or is touched for it."""

from __future__ import annotations

import json
import os
import resource
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentcli.shell import bash_lines
from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from agentcli.shell.terminal_request import MARK, _Reports
from agentcli.system import processes
from tests.shell.shells import is_alive, make_shell, needs_proc, sound, until

FOLDER = '"${BASH_SOURCE%/*}"'
"""Where the script of a command or a job lies, with the pipes or the log beside it."""
SPY = (
    'builtin() {{ [ "$1 $2" = \'printf \\036B%s\\036\' ] && nonce=$3; command builtin "$@"; }}\n'
    "forge() {{ command printf '\\036R%s:%s\\036' \"$nonce\" {0} 1<>{1}/report; }}"
)
LIES = [
    *("abc:himB:/", "-1:himB:/", "٣:himB:/", "99999999999999999999:himB:/", "", ":", "1", "1:"),
    *("0x1:himB:/", "1\\n:himB:/", "nan:himB:/", "1e3:himB:/", "1.5:h:/", " 1:h:/"),
]


@needs_proc
@pytest.mark.parametrize("lie", LIES)
def test_a_forged_report_that_is_none_is_not_taken_for_one(shell: Shell, lie: str) -> None:
    shell.run(SPY.format(f"$'{lie}'", FOLDER))
    result = shell.run("forge; (exit 3)")
    assert (result.output, result.exit_code) == ("", 3)
    shell.run("unset -f builtin forge")
    sound(shell)


@needs_proc
@pytest.mark.parametrize("cwd", ["relative", "", "../..", "/" + "x" * 5000])
def test_a_folder_that_is_none_is_not_gone_to(shell: Shell, cwd: str) -> None:
    before = shell.run("true").cwd
    result = shell.run(f"PWD={cwd}")
    assert result.cwd == before
    shell.restart()
    assert shell.run("command pwd -P").output == f"{before}\n"


@needs_proc
def test_reports_without_end_cost_no_memory_and_no_more_than_the_timeout(shell: Shell) -> None:
    shell.run("true")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = shell.run(f"cat /dev/zero >{FOLDER}/report", timeout=1.0)
    assert result.timed_out
    assert result.duration_s < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 40_000
    sound(shell)


@needs_proc
def test_a_pipe_that_nobody_empties_does_not_stop_us(shell: Shell) -> None:
    """A job fills the pipe of our lines as fast as the shell reads them, which then is busy."""
    fill = f"trap '' PIPE; head -c 200000 /dev/zero | tr '\\0' ' ' 1<>{FOLDER}/lines & sleep 1000"
    result = shell.run(fill, timeout=0.5)
    assert result.duration_s < 15
    shell.run("true")
    sound(shell)


@needs_proc
def test_no_group_but_that_of_the_terminal_is_signalled(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell that gives its terminal away has no foreground group: that is no number to use."""
    shell.run("true")
    assert shell._process is not None
    terminal = shell._process.terminal
    sent: list[int] = []
    monkeypatch.setattr(processes, "send", lambda found, signum: sent.extend(p.pid for p in found))
    for told in (0, 1, os.getpgid(0), os.getpid()):
        monkeypatch.setattr(os, "tcgetpgrp", lambda fd, told=told: told)
        assert terminal.foreground() == (told or None)
        assert terminal.foreground_leader() is None
        terminal.signal_foreground(9)
    assert sent == []


@needs_proc
@pytest.mark.parametrize(
    "told",
    [b"0", b"1", b"-1", b"", b" 1", "٣".encode(), b"9" * 30, b"9" * 5000, b"1\n", b"0x1", b"+1"],
)
def test_no_number_names_a_process_that_is_not_below_ours(told: bytes) -> None:
    assert processes.find_descendant(told, os.getpid()) is None
    assert processes.find_descendant(b"%d" % os.getpid(), os.getpid()) is None
    assert processes.find_descendant(b"%d" % os.getppid(), os.getpid()) is None


@needs_proc
def test_a_number_that_was_given_out_again_is_not_signalled(shell: Shell) -> None:
    shell.run_in_background("sleep 1000")
    process = shell.jobs[0].process
    assert process is not None
    first_unknown_word = processes.ProcessStat(process.pid, process.started - 1, "S", 1, 1, 1)
    processes.send([first_unknown_word], 9)
    assert processes.end_tree(first_unknown_word, ((9, 0.0),)) == 9
    assert processes.is_running(process)


DEEP = "for _ in range(3000): os.mkdir('d'); os.chdir('d')"


def test_what_commands_leave_in_our_folder_goes_however_deep_it_is(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").touch()
    shell = make_shell(tmp_path)
    shell.run(
        f"(cd {FOLDER}; ln -s {kept} link; mkdir a; echo x >a/b; mkfifo a/c; ln -s {kept} a/link; "
        f'cd a; python3 -c "import os\n{DEEP}")'
    )
    shell.close()
    assert list((tmp_path / "scratch").iterdir()) == []
    assert list(kept.iterdir()) == [kept / "file"]


# Jobs


@needs_proc
@pytest.mark.parametrize("status", ["", "x", "-1", "٣", "1234", "9" * 5000, "1 2"])
def test_a_job_that_left_no_number_has_no_exit_code(shell: Shell, status: str) -> None:
    shell.run("true")
    place = f"{FOLDER}/job-1.status"
    kill_parent = "read -r _ _ _ parent _ </proc/$BASHPID/stat; kill -9 $parent"
    shell.run_in_background(f"printf '%s' '{status}' >{place}; {kill_parent}")
    until(lambda: shell.job_status("job-1").exit_unknown)
    assert shell.job_status("job-1").exit_code is None


@needs_proc
@pytest.mark.parametrize("how", ["echo 0 >", "ln -s /etc/passwd ", "mkdir ", "mkfifo "])
def test_a_job_runs_until_it_has_ended_whatever_it_says(shell: Shell, how: str) -> None:
    place = f"{FOLDER}/job-1.status"
    shell.run_in_background(f"{how}{place}; echo on; sleep 1000")
    until(lambda: shell.job_status("job-1").output == "on\n")
    assert shell.job_status("job-1").exit_code is None
    assert not shell.job_status("job-1").exit_unknown
    pid = shell.jobs[0].pid
    assert pid is not None
    shell.stop_job("job-1")
    assert not is_alive(pid)


@needs_proc
def test_a_log_that_its_job_blew_up_or_closed_is_still_told(shell: Shell) -> None:
    log = f"{FOLDER}/job-1.log"
    shell.run_in_background(f"echo first; truncate -s 12G {log}; chmod 000 {log}; exit 3")
    until(lambda: shell.job_status("job-1").exit_code == 3)
    before = time.process_time()
    result = shell.job_status("job-1")
    assert time.process_time() - before < 5
    assert result.output.startswith("first\n")
    assert len(result.output) < 5_000


# Python


@needs_proc
@pytest.mark.parametrize(
    "report",
    [
        "nothing",
        "[]",
        "null",
        "1",
        '{"error": 1, "images": []}',
        '{"error": false}',
        '{"error": false, "images": "figure-1.png"}',
        json.dumps({"error": False, "images": ["x"] * 9}),
        "[" * 60_000,
    ],
)
def test_what_code_writes_as_a_report_is_none(python: PythonInterpreter, report: str) -> None:
    forge = (
        "import sys\n"
        "me = [o for o in __import__('gc').get_objects() if type(o).__name__ == 'Driver'][0]\n"
        "report = me.report_path\n"
        "frame = sys._getframe()\n"
        "while 'request' not in frame.f_locals: frame = frame.f_back\n"
        "nonce = frame.f_locals['request']['nonce']\n"
        f"open(report, 'w').write('\\x1eR' + nonce + ':' + {report!r} + '\\x1e')\n"
        "print('went on')"
    )
    result = python.run(forge)
    assert (result.output, result.error) == ("went on\n", False)
    assert python.run("1").output == "1\n"


@needs_proc
@pytest.mark.parametrize("name", ["..", "", ".", "report", "../x", "driver.py", "figure-1.png/.."])
def test_nothing_but_a_figure_is_read_or_removed(python: PythonInterpreter, name: str) -> None:
    forge = (
        "me = [o for o in __import__('gc').get_objects() if type(o).__name__ == 'Driver'][0]\n"
        f"me.figures = lambda prefix: [{name!r}]"
    )
    result = python.run(forge)
    assert (result.images, result.notes, result.error) == ((), (), False)
    assert python.run("1").output == "1\n"


# The report among everything else


def reports(pieces: list[bytes]) -> tuple[tuple[str, str] | None, bytes | None]:
    wanted = _Reports("n1", lambda text: bash_lines.parse_report(text) is not None)
    found = None
    for piece in pieces:
        found = found or wanted.feed(piece)
    return found, wanted.listing


@given(
    noise=st.lists(
        st.sampled_from([b"n1:", b"\x1e", b"\x1eRn1:", b"x", b"\x1eXn1\x1e", b"R", b"0:h:/", b"\0"])
        | st.binary(max_size=20)
    ),
    sizes=st.lists(st.integers(1, 9), min_size=1),
)
def test_the_report_is_found_behind_any_noise(noise: list[bytes], sizes: list[int]) -> None:
    """Unless the noise is a report itself, or the beginning of one."""
    mark = MARK.encode()
    before = b"".join(noise)
    data = before + mark + mark + b"\x1eXn1\x1elisting\x1eRn1:7:hm:/a b\x1e"
    pieces, at = [], 0
    while at < len(data):
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(data[at : at + size])
        at += size
    found, listing = reports(pieces)
    assert found is not None
    if found == ("R", "7:hm:/a b"):
        assert listing == b"listing"
    else:
        assert found[1] in before.decode("utf-8", "replace")


@pytest.mark.campaign
def test_searching_takes_time_in_proportion() -> None:
    for piece in (b"n1:", b"\x1eRn1:", b"\x1eRn1:x\x1e", b"\x1e" * 3):
        before = time.process_time()
        assert reports([piece * 1000] * 1000)[0] is None
        assert time.process_time() - before < 20
