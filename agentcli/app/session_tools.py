"""The tools of a session and what they work with: shells as its events left them, tool servers,
checkpoints, the git watch, the browser."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.act import record_git_cleanup
from agentcli.agent.agent import Agent, Approver
from agentcli.app import attachments
from agentcli.app.containment import CHECK_FOLDER, TMP_FOLDER, Containment
from agentcli.app.resume import last_exports, last_folder
from agentcli.checkpoints.checkpointer import Checkpointer, checkpoints_of
from agentcli.errors import ConfigError
from agentcli.events import Action, Event
from agentcli.events.actions import (
    AgentDelegateAction,
    AskUserAction,
    CmdRunAction,
    MemoryAction,
    RewindAction,
    is_user_message,
    path_of,
)
from agentcli.events.conversation import live, newest_first
from agentcli.events.observations import CheckpointObservation
from agentcli.events.progress import Notice, Status
from agentcli.git.baseline import SETTINGS
from agentcli.git.watch import GitWatch
from agentcli.interrupts import pause_countdown
from agentcli.llm.catalog import image_limits
from agentcli.llm.roles import Roles
from agentcli.sandbox.scope_finder import find_access_scope
from agentcli.sandbox.selection import BUBBLEWRAP, Sandbox
from agentcli.sessions.session import SessionLog
from agentcli.sessions.state import AgentState
from agentcli.settings import Settings, named_servers
from agentcli.shell.python import PythonInterpreter
from agentcli.shell.shell import Shell
from agentcli.tools.base import Effect, Tool, ToolContext
from agentcli.tools.registry import TOOLS, ToolRegistry
from agentcli.web.addresses import PageLimits
from agentcli.workspace.private import OutputFolder, add_writable_paths, remove_tree
from agentcli.workspace.tracking import FileTracker

if TYPE_CHECKING:
    from agentcli.browser.browser import Browser
    from agentcli.mcp.servers import ToolServers


def start(context: ToolContext, sandbox: Sandbox, state: Path, session: SessionLog) -> GitWatch:
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
        from agentcli.sandbox.system_calls import Renames

        with suppress(OSError):
            renames = Renames(session.folder, SETTINGS, watch.let_in)
            watch.before_close = renames.stop
            context.sandbox = shell.sandbox = python.sandbox = replace(sandbox, renames=renames)
    return watch


def begin(agent: Agent, session: SessionLog, context: ToolContext) -> None:
    """Start the watch once the session is open, if there are hooks: they run next, and like
    commands they run files of the workspace."""
    record_git_cleanup(agent, session)
    if context.git is not None and agent.hooks is not None:
        context.git.begin()


def end(agent: Agent, session: SessionLog, context: ToolContext) -> None:
    """Check the git folders a last time, after all processes that commands started have ended."""
    if context.git is not None:
        context.git.close()
        record_git_cleanup(agent, session)


_SHELL, _PYTHON = "shell", "python"
"""Folders of a session for the pipes of its interpreters; useless once those have ended."""


def tool_context(session: SessionLog, containment: Containment, model: str) -> ToolContext:
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
        context.browser = build_browser(session, containment, outputs)
    attachments.restore(past, context)
    context.git = start(context, sandbox, agent_home, session)
    return context


def remove_scratch(session: SessionLog) -> None:
    """Remove what a session's interpreters and checks needed while they ran."""
    for name in (_SHELL, _PYTHON, CHECK_FOLDER):
        remove_tree(session.folder / name)


def _shell(
    session: SessionLog, containment: Containment, past: Sequence[Event], outputs: OutputFolder
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


def ask_with(approver: Approver, session: SessionLog) -> Callable[[str, Sequence[str]], str | None]:
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


def _has_spoken(session: SessionLog) -> bool:
    """Whether the user has said something since the newest question."""
    for event in newest_first(session.events):
        if isinstance(event, AskUserAction):
            return False
        if is_user_message(event):
            return True
    return False


def start_servers(
    containment: Containment, session: SessionLog, learn: Callable[..., None], undo: ExitStack
) -> ToolServers | None:
    """Start to connect to the servers; `undo` ends them. Return None, without loading anything, if
    there are none."""
    settings = containment.settings
    if not (settings.tools.enable_mcp and named_servers(settings.mcp_servers)):
        return None
    from agentcli.app.server_plans import server_plans
    from agentcli.mcp.servers import ToolServers

    plans = server_plans(containment, learn)
    (session.folder / TMP_FOLDER).mkdir(mode=0o700, exist_ok=True)
    waits = Status("waiting", "for tool servers to start")
    servers = ToolServers(
        plans,
        containment.workspace,
        lambda line: session.notify(Notice(line)),
        lambda: session.notify(waits),
    )
    undo.callback(servers.close)
    servers.start()
    return servers


def session_tools(
    settings: Settings,
    context: ToolContext,
    servers: ToolServers | None,
    models: Roles,
    offered: Callable[[Iterable[Tool[Any]]], Iterable[Tool[Any]]],
    begun_with: Collection[str] = (),
) -> ToolRegistry:
    """Return those tools of a session, including its servers', that `offered` lets through. The
    main one of `models` is told of them. `begun_with` names the tools of a resumed session."""
    tools = list(_enabled_tools(settings, begun_with))
    if servers is None:
        return ToolRegistry(offered(tools), context)
    from agentcli.mcp.tools import SessionTools

    servers.wait()
    window = models.window(models.chain("main").model)
    most = window * settings.tools.mcp_schema_share
    of_servers = SessionTools(servers, most)

    def later(name: str) -> Tool[Any] | None:
        found = of_servers.later(name)
        return next(iter(offered([found])), None) if found is not None else None

    return ToolRegistry(offered([*tools, *of_servers.at_start()]), context, later)


def _enabled_tools(settings: Settings, begun_with: Collection[str]) -> Iterator[Tool[Any]]:
    """Yield the enabled tools. Raises ConfigError if a tool's switch is no setting."""
    # A session that was begun with Python when it was on by default is still told of it; it can do
    # no more than bash.
    kept = {"python"} if settings.tools.enable_cmd and "python" in begun_with else set()
    for tool in TOOLS.all().values():
        try:
            if not tool.switch or attrgetter(tool.switch)(settings) or tool.name in kept:
                yield tool
        except AttributeError as error:
            told = f"the switch of the tool {tool.name} is not a setting: {tool.switch}"
            raise ConfigError(told) from error


def build_checkpointer(
    session: SessionLog,
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


def _last_tree(session: SessionLog) -> str:
    for event in reversed(session.events):
        if isinstance(event, CheckpointObservation | RewindAction) and event.tree:
            return event.tree
    return ""


FOLDER = "browser"


def build_browser(session: SessionLog, containment: Containment, outputs: OutputFolder) -> Browser:
    """Return the browser; nothing is searched for or started yet."""
    from agentcli.browser.browser import Browser, BrowserSettings

    settings, sandbox = containment.settings, containment.sandbox

    def own_sandbox(folder: Path) -> Sandbox | None:
        """Return a sandbox that sees only system files and its own, which takes bubblewrap."""
        if sandbox.layer != BUBBLEWRAP:
            return None
        environ: Mapping[str, str] = containment.environ
        scope = find_access_scope(
            folder / "inside",
            environ,
            tmp=folder / "tmp",
            agent_files=[containment.agent_home],
            confined=True,
        )
        return replace(sandbox, scope=scope, network=False, once=False)

    return Browser(
        BrowserSettings(
            folder=session.folder / FOLDER,
            outputs=outputs,
            environ=containment.environ,
            sandbox=own_sandbox,
            program=settings.tools.browser,
            own_loopback=sandbox.own_loopback,
            open_ports=sandbox.host_ports,
        )
    )
