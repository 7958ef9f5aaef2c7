"""What is found, as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["passed", "failed", "unknown"]
Status = Literal["none", "not_run", "passed", "failed", "outdated", "unknown"]
"""Of the files as they were left: none: nothing changed and nothing was run; not_run: no tests were
run; outdated: files changed after the tests; unknown: it can't be told whether tests passed, or
whether files changed after them."""


@dataclass(frozen=True)
class TestRun:
    """A command that looks like tests, or the person's check, whose end is the event `event_id`.
    `why`: of an outcome that is not known. `session_id`: of the child that ran it."""

    event_id: int
    command: str
    runner: str
    outcome: Outcome
    why: str = ""
    session_id: str = ""


@dataclass(frozen=True)
class Evidence:
    """Of a session up to now. Paths are relative to the workspace. `tests` are the newest runs;
    `changed_at` and `passed_at` the events of the last change of a file and of the last run that
    passed; `never_run` test files that changed and no later run can have run; `not_run_again`
    commands that failed and neither they nor wider ones passed since."""

    status: Status = "none"
    tests: tuple[TestRun, ...] = ()
    files_changed: tuple[str, ...] = ()
    changed_at: int | None = None
    passed_at: int | None = None
    never_run: tuple[str, ...] = ()
    not_run_again: tuple[str, ...] = ()

    @property
    def told(self) -> str:
        """In a few words; "" where there is nothing to tell."""
        return _TOLD[self.status]

    @property
    def newest(self) -> TestRun | None:
        return self.tests[-1] if self.tests else None


_TOLD: dict[Status, str] = {
    "none": "",
    "not_run": "no tests run",
    "passed": "tests passed",
    "failed": "tests failed",
    "outdated": "tests not run since the last change",
    "unknown": "tests: outcome unknown",
}
NOTHING = Evidence()
