"""Builds what keeps checkpoints of a session's workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

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
from agentcli.sessions.session import Session
from agentcli.tools.base import Effect, ToolContext
from agentcli.tools.registry import ToolRegistry


def build_checkpointer(
    session: Session,
    tools: ToolRegistry,
    context: ToolContext,
    files_to_keep: Callable[[Action], Iterable[Path]],
    agent_changes: Callable[[str], bool],
) -> Checkpointer:
    """`files_to_keep` returns files that a command changes and that checkpoints only have if told
    to; `agent_changes`: whether the agent of that name may change files."""

    def may_change(action: Action) -> bool:
        from agentcli.security.commands.known_commands import is_read_only

        if isinstance(action, MemoryAction):
            return False
        if isinstance(action, AgentDelegateAction):
            return agent_changes(action.agent)
        reads = isinstance(action, CmdRunAction) and is_read_only(action.command)
        return tools.effect(action) in (Effect.WRITE, Effect.EXECUTE) and not reads

    def touched(action: Action) -> Iterable[Path]:
        path = path_of(action) if tools.effect(action) is Effect.WRITE else None
        return files_to_keep(action) if path is None else [context.files.locate(path)]

    return Checkpointer(
        lambda: checkpoints_of(session.folder, str(context.workspace)),
        may_change,
        touched,
        lambda: _last_tree(session),
    )


def _last_tree(session: Session) -> str:
    for event in reversed(session.events):
        if isinstance(event, CheckpointObservation | RewindAction) and event.tree:
            return event.tree
    return ""
