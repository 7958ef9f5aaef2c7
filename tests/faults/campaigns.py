"""Many trials, several at once. Each campaign returns what did not hold, with a recipe."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.conftest import MODELS
from tests.faults import workload
from tests.faults.trial import Delay, Disturbance, Ended, Fault, InReply, Strike, Trial
from tests.server import Reply

KILLS = ("kill-before", "kill-after", "tear")
REFUSALS = ("ENOSPC", "EIO", "EROFS")
SIGNALS = {"SIGINT": 130, "SIGTERM": 143}
_AT_ONCE = max(2, os.cpu_count() or 1)
_BUSY_BOUNDARIES = 500
_LONGEST_DELAY_S = 2.5

Item = TypeVar("Item")


@dataclass
class Findings:
    """`faults` is how many disturbances took effect, `problems` what did not hold."""

    trials: int = 0
    faults: int = 0
    problems: list[str] = field(default_factory=list)

    def __iadd__(self, other: Findings) -> Findings:
        self.trials += other.trials
        self.faults += other.faults
        self.problems += other.problems
        return self


def boundaries(
    api: str, steps: Sequence[Reply] = workload.SHORT, store: str = "files"
) -> tuple[str, ...]:
    """The writes of a session that nothing disturbs, in order."""
    with _tried(api, steps, store) as trial:
        trial.go(Fault("none", -1))
        trial.finish()
        assert trial.problems == [], trial.problems
        return trial.runs[0].boundaries


def kill_at_random(
    api: str, seed: int, *, by_clock: bool = False, store: str = "files"
) -> Findings:
    """One busy session, killed up to five times, while it is resumed too."""
    chance = random.Random(f"{api} {seed}")
    steps = workload.BUSY

    def work(trial: Trial) -> int:
        kills = 0
        for _ in range(chance.randint(1, 5)):
            ended = trial.go(_moment(chance, steps, by_clock))
            kills += ended.code == -9
            if ended.code == 0:
                break
        return kills

    return _trial(api, steps, work, f"kills: {api}, seed {seed}", store)


def kill_at(
    api: str, fault: Fault, steps: Sequence[Reply] = workload.SHORT, store: str = "files"
) -> Findings:
    """One session, killed at a write boundary."""
    return _trial(api, steps, lambda trial: trial.go(fault).code == -9, f"{api}: {fault}", store)


def refuse_from(
    api: str, fault: Fault, steps: Sequence[Reply] = workload.SHORT, store: str = "files"
) -> Findings:
    """One session whose disk refuses writes from a boundary on, and is mended after the run."""

    def work(trial: Trial) -> int:
        ended = trial.go(fault)
        trial.problems += _refusal_faults(trial, ended)
        return ended.code != 0

    return _trial(api, steps, work, f"{api}: {fault}", store)


def signal_at(
    api: str, fault: Fault, steps: Sequence[Reply] = workload.SHORT, store: str = "files"
) -> Findings:
    """One session that is asked to stop at a write boundary. (0: it was done by then.)"""

    def work(trial: Trial) -> int:
        ended = trial.go(fault)
        if ended.code not in (SIGNALS[fault.kind], 0):
            trial.problems.append(f"exit {ended.code}: {ended.last_words}")
        return ended.code != 0

    return _trial(api, steps, work, f"{api}: {fault}", store)


def at_once(work: Callable[[Item], Findings], items: Iterable[Item]) -> Findings:
    """All items worked on, as many at a time as there are processors."""
    total = Findings()
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for findings in pool.map(work, items):
            total += findings
    return total


@contextmanager
def _tried(api: str, steps: Sequence[Reply], store: str) -> Iterator[Trial]:
    with (
        tempfile.TemporaryDirectory() as folder,
        Trial(Path(folder) / "t", api, steps, store) as trial,
    ):
        yield trial


def _trial(
    api: str,
    steps: Sequence[Reply],
    work: Callable[[Trial], int],
    recipe: str,
    store: str = "files",
) -> Findings:
    with _tried(api, steps, store) as trial:
        faults = work(trial)
        trial.finish()
        return Findings(1, int(faults), [f"{recipe}: {problem}" for problem in trial.problems])


def _moment(chance: random.Random, steps: Sequence[Reply], by_clock: bool) -> Disturbance:
    kinds = ["boundary", "strike", "reply"] + (["delay"] if by_clock else [])
    kind = chance.choice(kinds)
    if kind == "boundary":
        return Fault(chance.choice(KILLS), chance.randrange(_BUSY_BOUNDARIES))
    if kind == "strike":
        return Strike(chance.choice(workload.marks(steps)))
    if kind == "reply":
        return InReply(chance.randrange(len(steps)), chance.randrange(12))
    return Delay(chance.uniform(0.05, _LONGEST_DELAY_S))


def _refusal_faults(trial: Trial, ended: Ended) -> list[str]:
    """The run must have ended with exit 1 and said where and, of a session that has its task, how
    much room is left, unless all that counts was recorded before."""
    if ended.code == 0:
        finished = trial.ledger.is_finished(trial.session)
        return [] if finished else ["exit 0, yet the end is not on disk"]
    problems = [] if ended.code == 1 else [f"exit {ended.code}: {ended.last_words}"]
    if trial.store != "files":
        if "can't be" not in ended.err:
            problems.append(f"the database is not named: {ended.last_words}")
        return problems
    if str(trial.sessions) not in ended.err:
        problems.append(f"the folder is not named: {ended.last_words}")
    if trial.session is not None and "free" not in ended.err:
        problems.append(f"the room left is not told: {ended.last_words}")
    return problems


APIS = tuple(MODELS)
