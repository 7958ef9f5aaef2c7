"""Puts together what keeps a session's workspace."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.checkpoints.checkpointer import Checkpointer, checkpoints_of
from agentcli.events import Action
from agentcli.events.actions import CmdRunAction, MemoryAction, path_of
from agentcli.sessions.session import Session
from agentcli.tools.base import Effect, ToolContext
from agentcli.tools.collection import ToolCollection

if TYPE_CHECKING:
    from agentcli.checkpoints.snapshots import Checkpoints


def make_checkpointer(
    session: Session,
    tools: ToolCollection,
    context: ToolContext,
    named: Callable[[Action], Iterable[Path]],
) -> Checkpointer:
    """`named` are files that a command changes and that no checkpoint has unless it is told to."""

    def may_change(action: Action) -> bool:
        from agentcli.security.commands.read_only import is_read_only

        if isinstance(action, MemoryAction):
            return False
        reads = isinstance(action, CmdRunAction) and is_read_only(action.command)
        return tools.effect(action) in (Effect.WRITE, Effect.EXECUTE) and not reads

    def touched(action: Action) -> Iterable[Path]:
        path = path_of(action) if tools.effect(action) is Effect.WRITE else None
        return named(action) if path is None else [context.files.locate(path)]

    def open_store() -> Checkpoints:
        return checkpoints_of(session.folder, str(context.workspace))

    return Checkpointer(open_store, may_change, touched)
