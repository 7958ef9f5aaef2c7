"""Numbers of processes that a contained shell makes up: nothing of the host is signalled for them,
and nothing that a command starts gets away."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.attacks.raids import AS_NOBODY, LAYERS_ALONE, SIDES, USERS, Attacked, bash, in_turn

every_side = pytest.mark.parametrize(
    ("layer", "user"), [*SIDES, *(("none", user) for user in USERS)]
)
LIE = (
    'builtin() {{ if [ "$1 $2" = \'printf %s\' ] && [ "$3" = "$!" ]; '
    "then command printf %s '{}'; else command builtin \"$@\"; fi; }}"
)
"""Our shell tells the number of a job by a builtin: what takes that over tells another."""
JOB = bash("echo on; sleep 1000", background=True)


def flags(layer: str) -> list[str]:
    return ["--yolo", *(["--no-sandbox"] if layer == "none" else [])]


@pytest.fixture
def bystander(user: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of the person that has nothing to do with the agent."""
    rights = AS_NOBODY if user == "nobody" else {}
    process = subprocess.Popen(["sleep", "1000"], start_new_session=True, **rights)
    yield process
    process.kill()
    process.wait()


@every_side
@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "left"])
def test_a_job_with_the_number_of_a_stranger_harms_nobody(arena, layer, user, bystander, stopped):
    stop = bash("stop", job="job-1")
    calls = [bash(LIE.format(bystander.pid)), JOB, *([stop] if stopped else [])]
    run = arena(layer, user).does(calls, *flags(layer))
    assert bystander.poll() is None
    assert "job-1 runs" in run.told[1]
    assert "ends with the shell" in run.told[1]
    if stopped:
        assert "job-1 runs" in run.told[2]
        assert "restart" in run.told[2]


@dataclass
class Alone(Attacked):
    """In a PID namespace with a bystander, whom everything that goes astray hits first. Exits with
    99 if the bystander has ended."""

    @property
    def command(self) -> list[str]:
        watch = 'sleep 1000 & "$@"; code=$?; kill -0 $! || code=99; kill -9 $!; exit $code'
        alone = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", watch]
        return [*alone, "sh", *super().command]

    def start(self, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
        return super().start(*arguments, **options, start_new_session=True)


can_be_alone = pytest.mark.skipif(
    os.getuid() != 0 or shutil.which("unshare") is None, reason="needs root and unshare"
)
NUMBERS = ["0", "1", "-1", "2", "$PPID", "٣", "99999999999999999999", "9" * 5000, "", "1 2", "nan"]
"""2 is the bystander."""


@can_be_alone
@in_turn("number", NUMBERS, [*LAYERS_ALONE, ("none",)])
def test_no_number_reaches_everyone_or_the_agent(arena, layer, number):
    place = arena(layer)
    place.agent = Alone(place.agent.home, place.agent.workspace)
    lie = LIE.format(number).replace("'$PPID'", '"$PPID"')
    stop = bash("stop", job="job-1")
    calls = [bash(lie), JOB, stop]
    run = place.does(calls, *flags(layer))
    assert run.exit_code == 0, run.stderr
