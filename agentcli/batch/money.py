"""A budget that several sessions share and never exceed."""

from __future__ import annotations

_LEAST_USD = 1e-6


class SharedBudget:
    """A budget of `total_usd`; None: no limit. What a working session may still spend is set aside
    for it, so that all of them together stay within the total."""

    def __init__(self, total_usd: float | None) -> None:
        self._total = total_usd
        self._spent: dict[str, float] = {}
        """What each task is known to have spent."""
        self._granted: dict[str, float] = {}
        """What the session of each working task may cost in all."""

    def note(self, task_id: str, spent_usd: float) -> None:
        """Record what a task has cost so far; it is not at work now."""
        self._granted.pop(task_id, None)
        self._spent[task_id] = spent_usd

    def grant(self, task_id: str, own_usd: float | None, shares: int) -> float | None:
        """Set money aside for a task and return what its session may cost in all: at most
        `own_usd`, and at most what it has spent plus an equal share, one of `shares`, of what is
        left; None without a limit. What a lost process left set aside for the task is not granted
        twice."""
        if self._total is None:
            return own_usd
        if task_id not in self._granted:
            most = self._spent.get(task_id, 0.0) + self.left_usd() / shares
            self._granted[task_id] = most if own_usd is None else min(own_usd, most)
        return self._granted[task_id]

    def release(self, task_id: str) -> None:
        """Set nothing aside for a task any more."""
        self._granted.pop(task_id, None)

    def is_spent(self, task_id: str) -> bool:
        """Return whether a task has spent already what is set aside for it."""
        if self._total is None:
            return False
        return self._granted[task_id] - self._spent.get(task_id, 0.0) < _LEAST_USD

    def left_usd(self) -> float:
        """Return what is neither spent nor set aside."""
        if self._total is None:
            return float("inf")
        taken = {**self._spent, **self._granted}
        return max(0.0, self._total - sum(taken.values()))
