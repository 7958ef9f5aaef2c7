"""Builds the tool servers of a session from settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from agentcli.app.open_session import OpenSession
from agentcli.app.sandbox import TMP_FOLDER, Containment
from agentcli.errors import ConfigError
from agentcli.events import Source
from agentcli.events.actions import MessageAction
from agentcli.events.progress import Notice, Status
from agentcli.llm.roles import Roles
from agentcli.sessions.session import Session
from agentcli.settings import Settings, named_servers
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.registry import TOOLS, ToolRegistry

if TYPE_CHECKING:
    from agentcli.mcp.servers import ToolServers

_MOST_NAMED = 20


def start_servers(
    containment: Containment, session: Session, learn: Callable[..., None], undo: ExitStack
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
) -> ToolRegistry:
    """Return those tools of a session, including its servers', that `offered` lets through. The
    main one of `models` is told of them."""
    tools = list(_enabled_tools(settings))
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


def report_servers(opened: OpenSession) -> None:
    """Tell the model which servers are left out, and which of its tools no longer exist."""
    lines = list(opened.servers.faults()) if opened.servers is not None else []
    gone = [
        schema.name
        for schema in opened.agent.schemas
        if schema.name.startswith("mcp") and not opened.agent.tools.has(schema.name)
    ]
    if gone:
        lines.append(f"these tools no longer exist: {', '.join(gone[:_MOST_NAMED])}")
    for line in lines:
        opened.session.notify(Notice(line))
    if lines:
        told = f"[{'; '.join(lines)}]"
        opened.session.emit(MessageAction(content=told, source=Source.ENVIRONMENT))


def _enabled_tools(settings: Settings) -> Iterator[Tool[Any]]:
    """Yield the enabled tools. Raises ConfigError if a tool's switch is no setting."""
    for tool in TOOLS.all().values():
        try:
            if not tool.switch or attrgetter(tool.switch)(settings):
                yield tool
        except AttributeError as error:
            told = f"the switch of the tool {tool.name} is not a setting: {tool.switch}"
            raise ConfigError(told) from error
