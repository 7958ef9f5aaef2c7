"""A budget that several sessions share and never pass."""

from __future__ import annotations

_LEAST_USD = 1e-6


class SharedBudget:
    """`total_usd` None: no limit. What a session that is at work may still spend is set aside for
    it, so that all of them together stay within the total."""

    def __init__(self, total_usd: float | None) -> None:
        self._total = total_usd
        self._spent: dict[str, float] = {}
        """By task, what is known to be spent."""
        self._granted: dict[str, float] = {}
        """By task that is at work, what its session may cost in all."""

    def note(self, task_id: str, spent_usd: float) -> None:
        """What a task has cost so far that is not at work now."""
        self._granted.pop(task_id, None)
        self._spent[task_id] = spent_usd

    def grant(self, task_id: str, own_usd: float | None, shares: int) -> float | None:
        """What the session of a task may cost in all, at most `own_usd`, so that as much is left
        for each of `shares - 1` others; None without a limit. What is set aside for it already, by
        a process that was lost, is not given twice."""
        if self._total is None:
            return own_usd
        if task_id not in self._granted:
            most = self._spent.get(task_id, 0.0) + self.left_usd() / shares
            self._granted[task_id] = most if own_usd is None else min(own_usd, most)
        return self._granted[task_id]

    def release(self, task_id: str) -> None:
        """Nothing is set aside for a task any more."""
        self._granted.pop(task_id, None)

    def is_poor(self, task_id: str) -> bool:
        """Whether what is set aside for a task is spent already."""
        if self._total is None:
            return False
        return self._granted[task_id] - self._spent.get(task_id, 0.0) < _LEAST_USD

    def left_usd(self) -> float:
        """What nobody has spent and nothing is set aside for."""
        if self._total is None:
            return float("inf")
        taken = {**self._spent, **self._granted}
        return max(0.0, self._total - sum(taken.values()))
