"""What the work must come to, and whether it did."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from agentcli.events.base import Observation


class RequirementsObservation(Observation):
    """What the work on the message that follows, or on what there is to go on with, must come to
    before it counts as done: `tests` that pass and are newer than the last change, a `check` of the
    person's that passes, after whose failures the model gets `retries` more attempts in all, an
    answer that fits a JSON `answer_schema`. It holds until the person says something else."""

    kind: ClassVar[str] = "requirements"
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


class RequirementObservation(Observation):
    """Whether a requirement was `met` when the model was done; `content` says why not. Of a check:
    its `command`, how long it took in seconds, and its exit code, None where it ran out of time."""

    kind: ClassVar[str] = "requirement"
    requirement: Literal["tests", "check", "answer"]
    met: bool
    command: str = ""
    exit_code: int | None = None
    duration_s: float = 0.0

    @property
    def message(self) -> str:
        what = f"{self.requirement} {self.command}".strip()
        return f"{what}: {'passed' if self.met else 'failed'}"
