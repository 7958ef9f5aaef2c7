"""Connects the watch over git folders to a session: what it may stop, and where it reports."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from agentcli.agent.agent import Agent
from agentcli.agent.execute import record_git_cleanup
from agentcli.git.baseline import SETTINGS
from agentcli.git.watch import GitWatch
from agentcli.sandbox.selection import BUBBLEWRAP, Sandbox
from agentcli.sessions.session import Session
from agentcli.tools.base import ToolContext


def start(context: ToolContext, sandbox: Sandbox, state: Path, session: Session) -> GitWatch:
    """Make the watch, before the session's first command; repair what killed sessions left."""
    shell, python = context.shell, context.python

    def stop() -> None:
        shell.kill_soon()
        python.kill_soon()

    def end_all() -> None:
        shell.end_all()
        python.close()

    watch = GitWatch(
        sandbox.scope,
        layer=sandbox.layer,
        state=state,
        session=session.id,
        folder=session.folder,
        stop=stop,
        end_all=end_all,
    )
    watch.finish_others()
    if sandbox.layer == BUBBLEWRAP and not sandbox.scope.sealed:
        from agentcli.sandbox.renames import Renames

        with suppress(OSError):
            renames = Renames(session.folder, SETTINGS, watch.let_in)
            watch.before_close = renames.stop
            context.sandbox = shell.sandbox = python.sandbox = replace(sandbox, renames=renames)
    return watch


def begin(agent: Agent, session: Session, context: ToolContext) -> None:
    """Start the watch once the session is open, if there are hooks: they run next, and like
    commands they run files of the workspace."""
    record_git_cleanup(agent, session)
    if context.git is not None and agent.hooks is not None:
        context.git.begin()


def end(agent: Agent, session: Session, context: ToolContext) -> None:
    """Check the git folders a last time, after all processes that commands started have ended."""
    if context.git is not None:
        context.git.close()
        record_git_cleanup(agent, session)
