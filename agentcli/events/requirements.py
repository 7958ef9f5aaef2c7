"""What must hold before work counts as done, and whether it does."""

from __future__ import annotations

from typing import Any, Literal

from agentcli.events.base import Observation


class RequirementsObservation(Observation, kind="requirements"):
    """What must hold before the work on the next message, or on what is left to do, counts as done:
    with `tests`, tests pass and are newer than the last change; the user's `check` passes, after
    whose failures the model gets `retries` more attempts in all; the answer fits the JSON
    `answer_schema`. It applies until the user says something else."""

    tests: bool = False
    check: str = ""
    retries: int = 0
    answer_schema: dict[str, Any] | None = None

    @property
    def message(self) -> str:
        named = {"tests": self.tests, f"check {self.check}": self.check}
        wanted = [*(name for name, given in named.items() if given)]
        wanted += ["an answer that fits a schema"] * (self.answer_schema is not None)
        return f"required: {', '.join(wanted) or 'nothing'}"


class RequirementJudgedObservation(Observation, kind="requirement"):
    """Whether a requirement was `met` when the model was done; if not, `content` says why. For a
    check: its `command`, its duration in seconds, and its exit code, None if it ran out of time."""

    requirement: Literal["tests", "check", "answer"]
    met: bool
    command: str = ""
    exit_code: int | None = None
    duration_s: float = 0.0

    @property
    def message(self) -> str:
        what = f"{self.requirement} {self.command}".strip()
        return f"{what}: {'passed' if self.met else 'failed'}"
