"""Builds what the tools of a session work with, as its events left it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from agentcli.agent.agent import Approver
from agentcli.app import git_watch, named_paths
from agentcli.app.resume import last_exports, last_folder
from agentcli.app.sandbox import CHECK_FOLDER, Containment
from agentcli.events import Event
from agentcli.events.actions import AskUserAction, is_user_message
from agentcli.events.live import live, newest_first
from agentcli.interrupts import pause_countdown
from agentcli.llm.image_limits import image_limits
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState
from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from agentcli.tools.base import ToolContext
from agentcli.web.addresses import PageLimits
from agentcli.workspace.private import OutputFolder, add_writable_paths, remove_tree
from agentcli.workspace.tracking import FileTracker

_SHELL, _PYTHON = "shell", "python"
"""Folders of a session for the pipes of its interpreters; useless once those have ended."""


def tool_context(session: Session, containment: Containment, model: str) -> ToolContext:
    """Build the context of a session's tools. `model` is the one whose image limits apply."""
    settings, sandbox = containment.settings.tools, containment.sandbox
    workspace, agent_home = containment.workspace, session.folder.parents[1]
    if sandbox.contains:
        add_writable_paths(agent_home, containment.scope.writable)
    outputs = OutputFolder(session.outputs, settings.max_outputs_mb * 1_000_000)
    max_chars = settings.max_output_chars
    files = FileTracker(workspace, sandbox.view, session.outputs)
    past = live(session.events)
    for event in past:
        files.observe(event)
    _private(session.folder / "tmp")
    context = ToolContext(
        workspace=workspace,
        outputs=outputs,
        files=files,
        shell=_shell(session, containment, past, outputs),
        python=PythonInterpreter(
            cwd=str(workspace),
            env=containment.environment,
            scratch=_private(session.folder / _PYTHON),
            outputs=outputs,
            max_chars=max_chars,
            sandbox=sandbox,
        ),
        sandbox=sandbox,
        output_chars=max_chars,
        image_limits=image_limits(model),
        past=session.events,
        page_limits=PageLimits(
            seconds=settings.fetch_s,
            max_bytes=round(settings.fetch_mb * 1_000_000),
            open_ports=sandbox.host_ports,
            proxied=settings.fetch_by_proxy,
        ),
    )
    if settings.enable_browsing:
        from agentcli.app.browser import build_browser

        context.browser = build_browser(session, containment, outputs)
    named_paths.restore(past, context)
    context.git = git_watch.start(context, sandbox, agent_home, session)
    return context


def remove_scratch(session: Session) -> None:
    """Remove what a session's interpreters and checks needed while they ran."""
    for name in (_SHELL, _PYTHON, CHECK_FOLDER):
        remove_tree(session.folder / name)


def _shell(
    session: Session, containment: Containment, past: Sequence[Event], outputs: OutputFolder
) -> Shell:
    """Return a shell in the folder and with the variables that `past` commands left."""
    sandbox, workspace = containment.sandbox, str(containment.workspace)
    env, full = containment.environment, containment.full_environment
    exports, not_restored = last_exports(past, sandbox.layer, env)
    return Shell(
        cwd=last_folder(past, workspace, sandbox.layer) or workspace,
        env=env,
        full_env=full.environ,
        withheld_environment=full.left_out,
        scratch=_private(session.folder / _SHELL),
        outputs=outputs,
        max_chars=containment.settings.tools.max_output_chars,
        sandbox=sandbox,
        exports=exports,
        first_notes=not_restored,
    )


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def ask_with(approver: Approver, session: Session) -> Callable[[str, Sequence[str]], str | None]:
    """Return a function that asks the user. In the meantime the session counts as waiting: if that
    is cut off, the question stays open and is asked again, unless the user says something else
    first."""

    def ask(question: str, options: Sequence[str]) -> str | None:
        if _has_spoken(session):
            return None
        session.change_state(AgentState.AWAITING_USER_CONFIRMATION)
        with pause_countdown():
            answer = approver.answer(question, options)
        session.change_state(AgentState.RUNNING)
        return answer

    return ask


def _has_spoken(session: Session) -> bool:
    """Whether the user has said something since the newest question."""
    for event in newest_first(session.events):
        if isinstance(event, AskUserAction):
            return False
        if is_user_message(event):
            return True
    return False
