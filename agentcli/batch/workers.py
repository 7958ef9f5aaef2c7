"""Who carries out tasks, as the batch sees them, and what they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentcli.batch.carry_out import Doing
from agentcli.batch.task import Order, Result


@dataclass(frozen=True)
class Report:
    """Of one task: what it is `doing`, or how it ended: with a `result`, for want of money after
    it `spent_usd`, because its worker was `lost`, or because no session can be kept, as
    `store_lost` says."""

    task_id: str
    doing: Doing | None = None
    result: Result | None = None
    spent_usd: float | None = None
    lost: str = ""
    store_lost: str = ""


def report_of(told: Mapping[str, Any]) -> Report:
    """From a line of what carries out tasks: `id` and one of `doing`, `result`, `needs_money`,
    `store_lost`."""
    if "doing" in told:
        return Report(told["id"], doing=Doing(**told["doing"]))
    if "needs_money" in told:
        return Report(told["id"], spent_usd=told["needs_money"])
    if "store_lost" in told:
        return Report(told["id"], store_lost=told["store_lost"])
    return Report(told["id"], result=Result.model_validate(told["result"]))


class Workers(Protocol):
    """Close them in the end: then all that they are at is left so that it can be gone on with."""

    @property
    def count(self) -> int:
        """How many tasks can be at work at once."""

    def begin(self, order: Order) -> None:
        """Have one carry it out. No more than `count` are begun at once."""

    def reports(self, seconds: float) -> Sequence[Report]:
        """What there is to tell, after at most so many seconds."""

    def close(self) -> None: ...
