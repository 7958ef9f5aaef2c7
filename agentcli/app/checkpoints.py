"""Builds what keeps checkpoints of a session's workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.agent.execute import show_saving
from agentcli.app.policy.parts import PolicyParts
from agentcli.app.policy.session_policy import SessionPolicy
from agentcli.checkpoints.checkpointer import Checkpointer, checkpoints_of
from agentcli.events import Action
from agentcli.events.actions import (
    AgentDelegateAction,
    CmdRunAction,
    MemoryAction,
    RewindAction,
    path_of,
)
from agentcli.events.observations import CheckpointObservation
from agentcli.files.access_scope import Coverage
from agentcli.sessions.session import Session
from agentcli.tools.base import Effect, ToolContext
from agentcli.tools.collection import ToolCollection

if TYPE_CHECKING:
    from agentcli.checkpoints.snapshots import Checkpoints


def policy_and_checkpointer(
    parts: PolicyParts, session: Session, agent_changes: Callable[[str], bool]
) -> tuple[SessionPolicy, Checkpointer | None]:
    """Return the policy and the checkpointer of a session. They need each other: the policy lets a
    command run unasked if a checkpoint covers its targets; the checkpointer adds the files that the
    policy finds in the command. `agent_changes`: whether the agent of that name may change
    files."""
    checkpointer: Checkpointer | None = None

    def coverage() -> Coverage | None:
        return None if checkpointer is None else checkpointer.coverage(show_saving(session))

    known = replace(
        parts,
        coverage=coverage,
        grants=lambda: session.state.grants,
        mask=lambda text: str(session.redact(text)),
    )
    policy = SessionPolicy(known)
    if parts.settings.agent.checkpoints:
        checkpointer = _checkpointer(
            session, parts.tools, parts.context, policy.to_keep, agent_changes
        )
    policy.begin()
    return policy, checkpointer


def _checkpointer(
    session: Session,
    tools: ToolCollection,
    context: ToolContext,
    named: Callable[[Action], Iterable[Path]],
    agent_changes: Callable[[str], bool],
) -> Checkpointer:
    """`named` returns files that a command changes and that checkpoints only have if told to;
    `agent_changes`: whether the agent of that name may change files."""

    def may_change(action: Action) -> bool:
        from agentcli.security.commands.read_only import is_read_only

        if isinstance(action, MemoryAction):
            return False
        if isinstance(action, AgentDelegateAction):
            return agent_changes(action.agent)
        reads = isinstance(action, CmdRunAction) and is_read_only(action.command)
        return tools.effect(action) in (Effect.WRITE, Effect.EXECUTE) and not reads

    def touched(action: Action) -> Iterable[Path]:
        path = path_of(action) if tools.effect(action) is Effect.WRITE else None
        return named(action) if path is None else [context.files.locate(path)]

    def open_store() -> Checkpoints:
        return checkpoints_of(session.folder, str(context.workspace))

    return Checkpointer(open_store, may_change, touched, lambda: _last_tree(session))


def _last_tree(session: Session) -> str:
    for event in reversed(session.events):
        if isinstance(event, CheckpointObservation | RewindAction) and event.tree:
            return event.tree
    return ""
