"""A task, the order handed to a worker, and the reports that come back: plain data."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_Text = Annotated[str, Field(pattern=r"\S")]


class _Value(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Limits(_Value):
    """Limits of one task."""

    max_turns: int | None = Field(None, gt=0)
    max_budget_usd: float | None = Field(None, gt=0)
    max_time_s: float | None = Field(None, gt=0)


class Task(_Value):
    """A task as in the tasks file. It works in a copy of the folder `workspace`, or in a clone of
    the repository `repo` (a folder or an address) at the commit, branch or tag `ref`."""

    id: Annotated[str, Field(pattern=f"^{_ID}$")]
    prompt: _Text
    workspace: _Text | None = None
    repo: _Text | None = None
    ref: str | None = None
    model: _Text | None = None
    limits: Limits = Limits()
    check: _Text | None = None

    @model_validator(mode="after")
    def _has_one_place(self) -> Self:
        if (self.workspace is None) == (self.repo is None):
            raise ValueError("it needs workspace or repo, one of them")
        if self.ref is not None and self.repo is None:
            raise ValueError("ref is of a repo")
        if self.ref is not None and not re.fullmatch(r"[^\s-]\S*", self.ref):
            raise ValueError("ref is no name of a commit, branch or tag")
        return self

    @property
    def digest(self) -> str:
        """A digest of the task and its place, which distinguishes it from other tasks."""
        same = self.model_dump_json(include={"id", "prompt", "workspace", "repo", "ref"})
        return hashlib.sha256(same.encode()).hexdigest()[:16]


class Order(_Value):
    """A task for a worker, with all that it needs besides the batch's folder `out`. `commit` is
    what `ref` stands for in the repository's mirror at `mirror`. `values` are the task's settings
    by dotted key. `budget_usd` is what its session may cost in all; `own_usd` is the task's own
    limit, whatever is left of the shared budget; None: no limit. `again`: continue the task though
    it ended in an error."""

    task: Task
    out: str
    mirror: str = ""
    commit: str = ""
    values: dict[str, Any] = {}
    budget_usd: float | None = None
    own_usd: float | None = None
    again: bool = False


class CheckOutcome(_Value):
    """How a check ended. `exit_code` is None if it ran into its time limit; `tail` is the end of
    its output."""

    command: str
    passed: bool
    exit_code: int | None
    duration_s: float
    tail: str = ""


Status = Literal["finished", "failed", "limit", "error"]
"""`failed`: the agent says that it could not do it. `error`: it could not begin or continue."""


class Result(_Value):
    """A line of the results file. `patch` turns the original files into the present ones. Tokens
    and USD are those of the session with its children; `cost_usd` is None if a price is not known,
    and `abandoned_usd` is what replies that broke off may have cost in addition. `duration_s`
    counts the processes that came to an end, not those that were killed."""

    id: str
    status: Status
    reason: str = ""
    exit_code: int = 0
    answer: str = ""
    error: str = ""
    check: CheckOutcome | None = None
    model: str = ""
    steps: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cache_read_tokens: int = 0
    cost_usd: float | None = None
    abandoned_usd: float = 0.0
    duration_s: float = 0.0
    session_id: str = ""
    workspace: str = ""
    patch: str = ""

    @property
    def outcome(self) -> str:
        """What the task came to: by its check if it has one, else by the agent's own word."""
        if self.status == "error":
            return "error"
        if self.check is not None:
            return "passed" if self.check.passed else "check failed"
        return self.status

    @property
    def spent_usd(self) -> float:
        """The most that was spent, as far as prices are known."""
        return (self.cost_usd or 0.0) + self.abandoned_usd

    @property
    def succeeded(self) -> bool:
        return self.outcome in ("passed", "finished")


@dataclass(frozen=True)
class Activity:
    """What a task is doing now. `cost_usd` is None if it is not known."""

    text: str
    steps: int = 0
    cost_usd: float | None = None


class Report(_Value):
    """A report about one task: what it is `doing`, or how it ended. It ended with a `result`, by
    using up its budget after `spent_usd`, because its worker was `lost`, or because no session can
    be stored (`store_lost`); the last two say why."""

    task_id: str
    doing: Activity | None = None
    result: Result | None = None
    spent_usd: float | None = None
    lost: str = ""
    store_lost: str = ""

    def as_line(self) -> str:
        """Return JSON, also for text that is not UTF-8, such as a patch of a file in Latin-1."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True))

    @classmethod
    def of_line(cls, line: bytes | bytearray) -> Self:
        return cls.model_validate(json.loads(line))
