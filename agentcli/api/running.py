"""A task done in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from agentcli.agent.ending import TurnResult
from agentcli.api.session import Session

if TYPE_CHECKING:
    from agentcli.api.options import Images, SessionOptions


def run(task: str, *, images: Images = (), **options: Unpack[SessionOptions]) -> TurnResult:
    """Have the agent do `task` in a session that `options` describe, and close that. Raises as
    `Session.open` and `Session.send` do; how the task ended is in the result."""
    with Session.open(**options) as session:
        return session.send(task, images)
