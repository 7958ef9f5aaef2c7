"""What the tests of the shell and the interpreter share."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from agentcli.sandbox.selection import Sandbox, SpawnOptions
from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from agentcli.shell.variables import Exports
from agentcli.system import processes
from agentcli.workspace.private import OutputFolder
from agentcli.workspace.scope import AccessScope

LIMIT_S = 30
HAS_PROC = Path("/proc/self/syscall").exists()
needs_proc = pytest.mark.skipif(not HAS_PROC, reason="needs /proc")


class Around(Sandbox):
    """A sandbox that is nothing but a program before the command."""

    def spawn_options(self, cwd: str, folders: Sequence[Path] = ()) -> SpawnOptions:
        return SpawnOptions(cwd, self.notes)


def around(*prefix: str) -> Sandbox:
    place = Path("/")
    return Around("none", AccessScope(place, place, (place,)), notes=prefix)


def exported(*changes: Mapping[str, str | None], layer: str = "none") -> Exports:
    """What commands of one layer made of the exported variables, from the changes of each."""
    exports = Exports()
    for change in changes:
        exports.add(change, layer)
    return exports


def make_shell(folder: Path, **options: object) -> Shell:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "TERM": "dumb", "KEPT": "a b"}
    (folder / "outputs").mkdir(exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    return Shell(
        cwd=str(folder / "work"),
        env=env,
        scratch=folder / "scratch",
        outputs=OutputFolder(folder / "outputs"),
        **options,
    )


def make_python(folder: Path, **options: object) -> PythonInterpreter:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    (folder / "outputs").mkdir(exist_ok=True)
    (folder / "work").mkdir(exist_ok=True)
    return PythonInterpreter(
        cwd=str(folder / "work"),
        env={"PATH": path, "HOME": str(folder), "TERM": "dumb"},
        scratch=folder / "scratch",
        outputs=OutputFolder(folder / "outputs"),
        **options,
    )


def is_alive(pid: int) -> bool:
    found = processes.process_stat(pid)
    return found is not None and not found.over


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
