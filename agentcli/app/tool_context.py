"""Builds what the tools of a session work with, as its events left it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentcli.app import git_watch, named_paths
from agentcli.app.resume import last_exports, last_folder
from agentcli.app.sandbox import CHECK_FOLDER, Containment
from agentcli.events import Event
from agentcli.events.live import live
from agentcli.files.output_folder import OutputFolder
from agentcli.files.private import remove_tree
from agentcli.files.tracking import FileTracker
from agentcli.files.written_places import add_written_places
from agentcli.llm.image_limits import image_limits
from agentcli.sessions.session import Session
from agentcli.settings import Settings
from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from agentcli.tools.base import ToolContext
from agentcli.web.page import PageLimits

_SHELL, _PYTHON = "shell", "python"
"""Folders of a session for the pipes of its interpreters; useless once those have ended."""


def tool_context(
    settings: Settings,
    workspace: Path,
    home: Path,
    session: Session,
    containment: Containment,
    model: str,
) -> ToolContext:
    """Build the context of a session's tools. `home` is the agent's; `model` is the one whose image
    limits apply."""
    sandbox = containment.sandbox
    if sandbox.contains:
        add_written_places(home, containment.scope.writable)
    outputs = OutputFolder(session.outputs, settings.tools.max_outputs_mb * 1_000_000)
    max_chars = settings.tools.max_output_chars
    files = FileTracker(workspace, sandbox.view, session.outputs)
    past = live(session.events)
    for event in past:
        files.observe(event)
    _private(session.folder / "tmp")
    context = ToolContext(
        workspace=workspace,
        outputs=outputs,
        files=files,
        shell=_shell(workspace, session, containment, past, outputs, max_chars),
        python=PythonInterpreter(
            workspace=workspace,
            env=containment.environment,
            scratch=_private(session.folder / _PYTHON),
            outputs=outputs,
            max_chars=max_chars,
            sandbox=sandbox,
        ),
        sandbox=sandbox,
        max_output_chars=max_chars,
        image_limits=image_limits(model),
        past=session.events,
        page_limits=PageLimits(
            seconds=settings.tools.fetch_s,
            max_bytes=round(settings.tools.fetch_mb * 1_000_000),
            open_ports=sandbox.host_ports,
            proxied=settings.tools.fetch_by_proxy,
        ),
    )
    if settings.tools.enable_browsing:
        from agentcli.app.browser import build_browser

        context.browser = build_browser(session, containment, outputs)
    named_paths.restore(past, context)
    context.git = git_watch.start(context, sandbox, home, session)
    return context


def remove_scratch(session: Session) -> None:
    """Remove what a session's interpreters and checks needed while they ran."""
    for name in (_SHELL, _PYTHON, CHECK_FOLDER):
        remove_tree(session.folder / name)


def _shell(
    workspace: Path,
    session: Session,
    containment: Containment,
    past: Sequence[Event],
    outputs: OutputFolder,
    max_chars: int,
) -> Shell:
    """Return a shell in the folder and with the variables that `past` commands left."""
    sandbox, env = containment.sandbox, containment.environment
    full = containment.full_environment
    exports, not_restored = last_exports(past, sandbox.layer, env)
    return Shell(
        cwd=last_folder(past, str(workspace), sandbox.layer) or str(workspace),
        env=env,
        full_env=full.environ,
        withheld_environment=full.left_out,
        scratch=_private(session.folder / _SHELL),
        outputs=outputs,
        max_chars=max_chars,
        sandbox=sandbox,
        exports=exports,
        first_notes=not_restored,
    )


def _private(folder: Path) -> Path:
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
