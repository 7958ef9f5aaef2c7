"""A batch killed in one process or in all continues to one result for each task."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path

import pytest

from tests.batch.tasks import play, results, task, write_tasks
from tests.conftest import LIMIT_S
from tests.server import ModelServer, Recorded, Reply

TASKS = 16
KILLS = 4

pytestmark = pytest.mark.campaign


class Killer:
    """A model that does the tasks, and kills something when `left` requests have come."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.batch: subprocess.Popen[bytes] | None = None
        self.left = 0

    def play(self, request: Recorded) -> Reply:
        self.left -= 1
        if self.left == 0 and self.batch is not None:
            self._kill(self.batch.pid)
        return play(request)

    def _kill(self, pid: int) -> None:
        """Kill the batch, one of its workers, or all of them."""
        workers = children(pid)
        chosen = self.chance.choice([[pid], workers[:1], [pid, *workers]])
        for each in chosen:
            os.kill(each, signal.SIGKILL)


def children(pid: int) -> list[int]:
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in told.split()]


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_killed_each_task_has_one_result(agent, repository, tmp_path, seed):
    tasks = [task(f"t{n}", repo="work", check=f"test -s t{n}.txt") for n in range(TASKS)]
    file, out = write_tasks(tmp_path / "tasks.jsonl", tasks), tmp_path / "out"
    arguments = ("batch", str(file), "--out", str(out), "--workers", "2", "-q")
    killer = Killer(random.Random(seed))
    with ModelServer(play=killer.play) as server:
        agent.use(server)
        for _ in range(KILLS):
            killer.left = killer.chance.randint(1, 8)
            with agent.start(*arguments) as batch:
                killer.batch = batch
                batch.communicate(timeout=LIMIT_S)
        killer.batch = None
        done = agent(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"] == {"passed": TASKS}
    found = [each["id"] for each in results(out)]
    assert sorted(found) == sorted(each["id"] for each in tasks)
    # A command that was at work when it was killed may have been cut off, and was not run again.
    for name in found:
        assert (out / "work" / name / f"{name}.txt").read_text() == f"{name}\n"
    assert server.violations == []
