"""`python -m benchmarks.checkpoints`: what a snapshot of the workspace costs before a step."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from agentcli.checkpoints.snapshots import Checkpoints
from benchmarks.report import Figure, figure

SIZES = (200, 50_000)
CHANGED = 3
_LIMIT_MS = {200: 10.0, 50_000: 120.0}
_ROUNDS = 9
_COLD_ROUNDS = 3
_FILES_A_FOLDER = 10
_LINES = 60
_PART = "Checkpoints"


def measure(scratch: Path) -> list[Figure]:
    """Trees of each size, without git and with all files committed."""
    return [
        one
        for count in SIZES
        for with_git in (False, True)
        for one in _measure_tree(scratch, count, with_git)
    ]


def _measure_tree(scratch: Path, count: int, with_git: bool) -> list[Figure]:
    workspace, store = scratch / f"work-{count}-{with_git}", scratch / "store"
    files = _make(workspace, count)
    if with_git:
        _commit(workspace)
    cold = [_cold(workspace, store) for _ in range(_COLD_ROUNDS)]
    checkpoints = Checkpoints(workspace, store)
    checkpoints.take()
    unchanged = [_ms(checkpoints.take) for _ in range(_ROUNDS)]
    changed = []
    for number in range(_ROUNDS):
        for file in files[:: len(files) // CHANGED][:CHANGED]:
            file.write_text(f"{number}\n" * _LINES)
        changed.append(_ms(checkpoints.take))
    resumed = [_ms(lambda: Checkpoints(workspace, store).take()) for _ in range(_ROUNDS)]
    shutil.rmtree(workspace)
    name = f"{count:,} files, {'git' if with_git else 'no git'}"
    limit = _LIMIT_MS[count]
    return [
        figure(_PART, f"{name}: first", cold, "ms"),
        figure(_PART, f"{name}: nothing changed", unchanged, "ms", limit),
        figure(_PART, f"{name}: {CHANGED} files changed", changed, "ms", limit),
        figure(_PART, f"{name}: first of a resumed process", resumed, "ms"),
    ]


def _make(workspace: Path, count: int) -> list[Path]:
    files = []
    for number in range(count):
        folder = number // _FILES_A_FOLDER
        path = workspace / f"package{folder % 50}" / f"module{folder}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {number}\n" * _LINES)
        files.append(path)
    return files


def _commit(workspace: Path) -> None:
    git = ["git", "-c", "gc.auto=0", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    for arguments in (["init"], ["add", "."], ["commit", "-m", "all"], ["repack", "-adq"]):
        environment = {"PATH": os.environ["PATH"]}
        command = [*git, *arguments]
        subprocess.run(command, cwd=workspace, env=environment, check=True, capture_output=True)


def _cold(workspace: Path, store: Path) -> float:
    shutil.rmtree(store, ignore_errors=True)
    return _ms(Checkpoints(workspace, store).take)


def _ms(act: Callable[[], object]) -> float:
    started = time.monotonic()
    act()
    return 1000 * (time.monotonic() - started)
