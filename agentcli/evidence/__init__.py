"""What a session's log proves about its work: what changed, what was tested, and the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["passed", "failed", "unknown"]
EvidenceStatus = Literal["none", "not_run", "passed", "failed", "outdated", "unknown"]
"""The status of the files as they were left. none: nothing changed and nothing was run; not_run: no
tests were run; outdated: files changed after the tests; unknown: it can't be told whether tests
passed, or whether files changed after them."""


@dataclass(frozen=True)
class TestRun:
    """A command that looks like tests, or the user's check, which ended at `event_id`. `why` is the
    reason for an unknown outcome, `session_id` that of the child that ran it."""

    event_id: int
    command: str
    runner: str
    outcome: Outcome
    why: str = ""
    session_id: str = ""


@dataclass(frozen=True)
class Evidence:
    """The evidence in a session's log. Paths are relative to the workspace. `tests` are the newest
    runs; `changed_at` and `passed_at` the events of the last change of a file and of the last run
    that passed; `never_run` are changed test files that no later run can have covered;
    `not_run_again` are failed commands after which neither they nor wider ones passed."""

    status: EvidenceStatus = "none"
    tests: tuple[TestRun, ...] = ()
    files_changed: tuple[str, ...] = ()
    changed_at: int | None = None
    passed_at: int | None = None
    never_run: tuple[str, ...] = ()
    not_run_again: tuple[str, ...] = ()

    @property
    def status_text(self) -> str:
        """Return the status in a few words; "" if there is nothing to tell."""
        return _STATUS_TEXTS[self.status]

    @property
    def newest(self) -> TestRun | None:
        return self.tests[-1] if self.tests else None


_STATUS_TEXTS: dict[EvidenceStatus, str] = {
    "none": "",
    "not_run": "no tests run",
    "passed": "tests passed",
    "failed": "tests failed",
    "outdated": "tests not run since the last change",
    "unknown": "tests: outcome unknown",
}
NOTHING = Evidence()
