"""Commands that take all there is: the agent stays small and answers, the machine stays usable."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path

import pytest

from agentcli.sandbox.system_calls import FILE_BYTES, PROCESSES
from tests.attacks.raids import BEST, Arena, Run, bash
from tests.sandbox.sandboxes import LAYERS
from tests.server import Call

# What is loaded beforehand, the parts of no use here too, would count as the agent's memory.
pytestmark = pytest.mark.own_start

every_side = pytest.mark.parametrize("layer", [*LAYERS, "none"])
MOST_MEMORY = 150 << 20
"""Bytes that the agent itself may have in memory."""


def flags(layer: str) -> list[str]:
    return ["--yolo", *(["--no-sandbox"] if layer == "none" else [])]


class Watched:
    """Notes the most memory that the agent has taken, in bytes."""

    def __init__(self) -> None:
        self.most = 0
        self._ended = threading.Event()

    def __call__(self, process: subprocess.Popen[bytes]) -> None:
        threading.Thread(target=self._watch, args=(process,), daemon=True).start()

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            try:
                line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
            except (OSError, StopIteration):
                continue
            self.most = max(self.most, int(line.split()[1]) << 10)
            self._ended.wait(0.02)


def run(place: Arena, *commands: str, **options: object) -> tuple[Run, Watched]:
    calls = [bash(command, **options) for command in commands]
    watched = Watched()
    found = place.tries(calls, *flags(place.layer), meanwhile=watched)
    return found, watched


def test_a_gigabyte_of_output_takes_no_memory(arena):
    place = arena(BEST)
    done, watched = run(place, "head -c 1000000000 /dev/zero | tr '\\0' x")
    assert done.exit_code == 0
    assert 0 < watched.most < MOST_MEMORY
    assert len(done.told[0]) < 40_000
    kept = sum(path.stat().st_size for path in place.home.rglob("*") if path.is_file())
    assert kept < 60_000_000


@pytest.mark.parametrize("layer", LAYERS)
def test_all_outputs_together_have_a_limit_and_none_vanishes(arena, layer):
    place = arena(layer)
    command = "head -c 900000 /dev/zero | tr '\\0' x"
    calls = [bash(command) for _ in range(4)]
    calls += [Call("python", {"code": "print('y' * 900000)"})]
    calls += [bash(command, background=True)]
    done = place.does(calls, *flags(layer), "--set", "tools.max_outputs_mb=2")
    assert done.exit_code == 0
    kept = sorted(path.stat().st_size for path in place.home.glob("state/sessions/*/outputs/*"))
    assert kept == [0, 200_000, 900_000, 900_000], done.told
    assert "holds the first 200,000 bytes" in done.told[2]
    for told in done.told[3:5]:
        assert "could not be kept: this session has reached its limit of 2,000,000 bytes" in told
    assert "the output of the job is not kept" in done.told[5]


def test_one_endless_line_and_binary_noise_do_no_harm(arena):
    noise = "head -c 9000000 /dev/urandom; printf '\\033]52;c;x\\007'; head -c 9999999 /dev/zero"
    done, watched = run(arena(BEST), noise)
    assert done.exit_code == 0
    assert watched.most < MOST_MEMORY
    assert "\\u001b" not in done.requests[-1].raw.decode()


@every_side
def test_no_file_grows_beyond_its_limit(arena, layer):
    """A sparse one takes no room, and still is none that a backup or a checkpoint could copy."""
    place = arena(layer)
    done, watched = run(place, "truncate -s 100G sparse; ls -s sparse; echo went on")
    assert "went on" in done.told[0]
    sparse = place.workspace / "sparse"
    assert not sparse.exists() or sparse.stat().st_size <= FILE_BYTES
    assert watched.most < MOST_MEMORY


@every_side
def test_limits_hold_and_can_not_be_raised(arena, layer):
    show = "ulimit -Hc; ulimit -Hf; ulimit -f unlimited 2>&1; ulimit -Hu"
    done, _ = run(arena(layer), show)
    core, size, *others = done.told[0].splitlines()
    refused, processes = " ".join(others[:-1]), others[-1]
    assert core == "0"
    assert int(size) <= FILE_BYTES >> 10
    # Root may raise its own, where it has kept its powers.
    assert "limit" in refused or (layer == "none" and os.getuid() == 0)
    running = len(list(Path("/proc").glob("[0-9]*/task/[0-9]*")))
    assert int(processes) < running + PROCESSES + 1000


def test_a_fork_bomb_is_refused_when_it_shows(arena):
    place = arena(BEST)
    bombs = [":(){ :|:& };:", "perl -e 'fork while 1'", "b() { b | b & }; b"]
    done, _ = run(place, *bombs)
    assert [told for told in done.told if "Not allowed" not in told] == []


@pytest.mark.parametrize("layer", LAYERS)
def test_a_fork_bomb_that_does_not_show_ends_with_its_command(arena, layer):
    """It starts as many as it may and waits; the limit is this test's, set from within."""
    place = arena(layer)
    (place.workspace / "bomb.py").write_text(
        "import os, resource, time\n"
        "limit = len([n for n in os.listdir('/proc') if n.isdigit()]) + 150\n"
        "resource.setrlimit(resource.RLIMIT_NPROC, (limit, limit))\n"
        "count = 0\n"
        "try:\n"
        "    while count < 400:\n"
        "        if os.fork() == 0:\n"
        f"            os.execlp('sleep', 'sleep', '{place.base.name[-8:]}')\n"
        "        count += 1\n"
        "except OSError:\n"
        "    pass\n"
        "print('started', count)\n"
    )
    done, watched = run(place, "python3 bomb.py", "echo the shell lives")
    assert "started" in done.told[0]
    assert "the shell lives" in done.told[1]
    assert watched.most < MOST_MEMORY


@every_side
def test_a_memory_hog_is_on_its_own(arena, layer):
    """What a command takes is not the agent's, and a command that dies of it is told so."""
    hog = "import resource; resource.setrlimit(resource.RLIMIT_AS, (1 << 28,) * 2); 'x' * (1 << 29)"
    done, watched = run(arena(layer), f'python3 -c "{hog}"', "echo the shell lives")
    assert "MemoryError" in done.told[0]
    assert "the shell lives" in done.told[1]
    assert watched.most < MOST_MEMORY


def test_many_files_and_deep_folders_do_not_stop_the_agent(arena):
    place = arena(BEST)
    make = (
        "python3 -c \"import os\nfor n in range(300): os.mkdir('d'); os.chdir('d')\"; "
        "mkdir many; cd many; seq 3000 | xargs touch; cd ..; mkfifo pipe; ln -s loop loop"
    )
    calls = [
        bash(make),
        Call("glob", {"pattern": "**/*"}),
        Call("grep", {"pattern": "x"}),
        Call("read", {"path": "pipe"}),
        Call("read", {"path": "loop"}),
        Call("write", {"path": "after", "content": "x"}),
    ]
    watched = Watched()
    done = place.tries(calls, *flags(place.layer), meanwhile=watched)
    assert done.exit_code == 0
    assert (place.workspace / "after").exists()
    assert watched.most < MOST_MEMORY


def test_the_watcher_sees_memory():
    """Else the tests above would pass with any agent."""
    watched = Watched()
    process = subprocess.Popen(["python3", "-c", "x = b'x' * (200 << 20); input()"], stdin=-1)
    watched(process)
    while watched.most < MOST_MEMORY and process.poll() is None:
        pass
    process.communicate(b"\n")
    assert watched.most > MOST_MEMORY
