"""Workers as the batch sees them, and what they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from agentcli.batch.carry_out import Activity
from agentcli.batch.task import Order, Result


@dataclass(frozen=True)
class Report:
    """A report about one task: what it is `doing`, or how it ended. It ended with a `result`, by
    using up its budget after `spent_usd`, because its worker was `lost`, or because no session can
    be stored (`store_lost`); the last two say why."""

    task_id: str
    doing: Activity | None = None
    result: Result | None = None
    spent_usd: float | None = None
    lost: str = ""
    store_lost: str = ""


def report_of(told: Mapping[str, Any]) -> Report:
    """Return the report of a worker's message, which has `id` and one of `doing`, `result`,
    `needs_money` and `store_lost`."""
    if "doing" in told:
        return Report(told["id"], doing=Activity(**told["doing"]))
    if "needs_money" in told:
        return Report(told["id"], spent_usd=told["needs_money"])
    if "store_lost" in told:
        return Report(told["id"], store_lost=told["store_lost"])
    return Report(told["id"], result=Result.model_validate(told["result"]))


class Workers(Protocol):
    """Whoever carries out tasks. `close` leaves what is at work so that it can be continued."""

    @property
    def count(self) -> int:
        """How many tasks can be carried out at once."""

    def begin(self, order: Order) -> None:
        """Have one worker carry out the order. The caller begins at most `count` at once."""

    def reports(self, seconds: float) -> Sequence[Report]:
        """Return what there is to report, waiting at most so many seconds."""

    def close(self) -> None: ...
