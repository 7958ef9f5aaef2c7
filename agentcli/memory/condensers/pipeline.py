"""pipeline: several condensers in a row, each working on what the previous one left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn

from agentcli.errors import ConfigError
from agentcli.events.actions import CondensationAction
from agentcli.memory.condenser import Condenser, CondenserKind, Options
from agentcli.memory.view import View


@dataclass(frozen=True)
class Pipeline:
    stages: Sequence[Condenser]
    until_it_fits: bool = False
    """Stop after the first stage that gets down to the target."""

    def condense(self, view: View) -> CondensationAction | None:
        done: CondensationAction | None = None
        for stage in self.stages:
            action = stage.condense(view)
            if action is None:
                continue
            view = view.after(action)
            done = action if done is None else merged(done, action)
            if self.until_it_fits and view.tokens <= view.target():
                break
        return done


def merged(first: CondensationAction, second: CondensationAction) -> CondensationAction:
    """Combine both into one. The second saw what the first had left, including its summary, which
    it forgot if it wrote one itself."""
    forgotten = {*first.forgotten_ids(), *second.forgotten_ids()}
    masked = {*first.masked_event_ids, *second.masked_event_ids} - forgotten
    last = second if second.summary else first
    return first.model_copy(
        update={
            "forgotten_event_ids": tuple(sorted(forgotten)),
            "masked_event_ids": tuple(sorted(masked)),
            "summary": last.summary,
            "summary_offset": last.summary_offset,
            "reason": "; then ".join(a.reason for a in (first, second) if a.reason),
            "numbers": {**first.numbers, **second.numbers},
            "summariser_error": second.summariser_error or first.summariser_error,
        }
    )


def _not_by_name(options: Options) -> NoReturn:
    raise ConfigError(
        "memory.condenser: a pipeline is written as the list of its stages",
        hint='e.g. condenser = ["old_results", "llm_summary"]',
    )


CONDENSER = CondenserKind(_not_by_name)
