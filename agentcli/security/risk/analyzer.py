"""Combines several ways to rate the risk of an action."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agentcli.events import Action
from agentcli.events.base import Risk

Rate = Callable[[Action], tuple[Risk, str]]
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Analyzer:
    """Rates an action by several analyzers. The highest rating counts, so that no analyzer can talk
    a risk down. One that fails counts as HIGH: what could not be judged must not pass as harmless.
    """

    analyzers: Sequence[Rate]

    def rate(self, action: Action) -> tuple[Risk, str]:
        """Return the risk and its reason; UNKNOWN only if no analyzer has a rating. Never
        raises."""
        highest, why = Risk.UNKNOWN, ""
        for analyzer in self.analyzers:
            risk, reason = _rated(analyzer, action)
            if risk > highest:
                highest, why = risk, reason
        return highest, why


def model_rating(action: Action) -> tuple[Risk, str]:
    """Return the model's own rating of its action; UNKNOWN if it gave none."""
    risk = getattr(action, "security_risk", Risk.UNKNOWN)
    return risk, "" if risk is Risk.UNKNOWN else f"the model itself rates it {risk.name.lower()}"


def _rated(analyzer: Rate, action: Action) -> tuple[Risk, str]:
    try:
        return analyzer(action)
    except Exception:
        # Whatever went wrong, the action must not pass as harmless, and the turn must go on.
        _LOG.exception("an analyzer of risk failed")
        return Risk.HIGH, f"the {_name(analyzer)} analyzer failed, so the risk isn't known"


def _name(analyzer: Rate) -> str:
    inner = getattr(analyzer, "func", analyzer)
    name = getattr(inner, "__name__", type(inner).__name__)
    return str(name).removeprefix("rate_by_").replace("_", " ").lower()
