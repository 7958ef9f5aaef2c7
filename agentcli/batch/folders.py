"""Where things are in the output folder of a batch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

RESULTS = "results.jsonl"


@dataclass(frozen=True)
class BatchFolders:
    """`results.jsonl`, `summary.md` and `outcome.svg` are for people, `work` has a folder for each
    task, and `.batch` is internal."""

    out: Path

    @property
    def results(self) -> Path:
        return self.out / RESULTS

    @property
    def summary(self) -> Path:
        return self.out / "summary.md"

    @property
    def plot(self) -> Path:
        return self.out / "outcome.svg"

    @property
    def lock(self) -> Path:
        return self.out / ".batch" / "lock"

    @property
    def log(self) -> Path:
        return self.out / ".batch" / "log"

    def log_of(self, machine: str) -> Path:
        """Return the log of one machine of a cluster."""
        return self.out / ".batch" / f"log-{machine}"

    def mirror(self, repo: str) -> Path:
        """Return the mirror from which the copies of a repository are made."""
        name = hashlib.sha256(repo.encode()).hexdigest()[:16]
        return self.out / ".batch" / "repositories" / f"{name}.git"

    def workspace(self, task_id: str) -> Path:
        return self.out / "work" / task_id

    def task(self, task_id: str) -> Path:
        """Return the folder for what is known of a task that was begun."""
        return self.out / ".batch" / "tasks" / task_id
