"""What children need of the session that delegates to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from agentcli.agent.agent import Approver
from agentcli.agent.run_limits import Limits
from agentcli.app.delegation.child_role import ChildRole
from agentcli.app.open_session import OpenSession
from agentcli.app.policy.session_policy import SessionPolicy
from agentcli.app.sandbox import Containment
from agentcli.sessions.session import Session, Subscriber
from agentcli.settings import Settings

ApproverFactory = Callable[[SessionPolicy, Callable[[str], str | None]], Approver]
"""Makes an approver from the policy, which knows the rules that a lasting answer could save, and a
function that returns the current text of a file."""


class ChildBuilder(Protocol):
    """Builds sessions with the role of a child; see AgentBuilder."""

    def create(
        self, subscribers: Callable[[Session], Sequence[Subscriber]], *, folder: Path
    ) -> OpenSession: ...
    def reopen(
        self,
        folder: Path,
        subscribers: Callable[[Session], Sequence[Subscriber]],
        *,
        has_message: bool = False,
    ) -> OpenSession: ...


@dataclass(frozen=True)
class Parent:
    """The session that delegates. `make_approver` None: nobody can be asked; `level`: how many
    sessions are above it."""

    make_approver: ApproverFactory | None
    builder_for: Callable[[ChildRole, Settings, ApproverFactory | None], ChildBuilder]
    """Returns the builder for a child's session."""
    session: Session
    containment: Containment
    policy: SessionPolicy
    limits: Limits
    level: int
