"""What a task is, what is handed to whoever carries it out, and what comes back: plain data."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_ID = r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
_Text = Annotated[str, Field(pattern=r"\S")]


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Limits(_Plain):
    """Of one task."""

    max_turns: int | None = Field(None, gt=0)
    max_budget_usd: float | None = Field(None, gt=0)
    max_time_s: float | None = Field(None, gt=0)


class Task(_Plain):
    """A line of the tasks file. It works in a copy of the folder `workspace`, or in a clone of the
    repository `repo`, a folder or an address, at the commit, branch or tag `ref`."""

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
        """Of what it works on and where: the same work, as long as it is the same."""
        same = self.model_dump_json(include={"id", "prompt", "workspace", "repo", "ref"})
        return hashlib.sha256(same.encode()).hexdigest()[:16]


class Order(_Plain):
    """A task for whoever carries it out: all that is needed beside the batch's own folder `out`.
    `commit` is what `ref` stands for, in the copy of the repository at `mirror`. `values` are the
    settings for it by dotted key. `budget_usd` is what its session may cost in all, and `own_usd`
    what it may cost whatever is left of the money for all tasks; None: no limit. `again`: a failure
    that it came to is not its end."""

    task: Task
    out: str
    mirror: str = ""
    commit: str = ""
    values: dict[str, Any] = {}
    budget_usd: float | None = None
    own_usd: float | None = None
    again: bool = False


class CheckOutcome(_Plain):
    """`exit_code` None: it was stopped at its time limit. `tail` is the end of what it printed."""

    command: str
    passed: bool
    exit_code: int | None
    duration_s: float
    tail: str = ""


Status = Literal["finished", "failed", "limit", "error"]
"""`failed`: the agent says that it could not; `error`: it could not go on, or could not begin."""


class Result(_Plain):
    """A line of the results. `patch` brings the workspace from what it was to what it is; tokens
    and USD are those of the whole session with its children, `cost_usd` None where a price is not
    known; `abandoned_usd` is what replies that broke off may have cost besides; `duration_s` is the
    time at work of the processes that came to an end."""

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
        """What counts: the check if there is one, else what the agent says."""
        if self.status == "error":
            return "error"
        if self.check is not None:
            return "passed" if self.check.passed else "check failed"
        return self.status

    @property
    def spent_usd(self) -> float:
        """At most, as far as prices are known."""
        return (self.cost_usd or 0.0) + self.abandoned_usd

    @property
    def succeeded(self) -> bool:
        return self.outcome in ("passed", "finished")
