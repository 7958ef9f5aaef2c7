"""Does a task in one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from agentcli.agent.ending import TurnResult
from agentcli.api.session import Session

if TYPE_CHECKING:
    from agentcli.api.options import Images, SessionOptions


def run(task: str, *, images: Images = (), **options: Unpack[SessionOptions]) -> TurnResult:
    """Do `task` in a session with these options, and close it. The result says how the task ended.
    Raises as `Session.open` and `Session.send` do."""
    with Session.open(**options) as session:
        return session.send(task, images)
