"""The tool servers of a session, put together from settings."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from operator import attrgetter
from typing import Any

from agentcli.app.open_session import OpenSession
from agentcli.app.sandbox import TMP_FOLDER, Containment
from agentcli.errors import ConfigError
from agentcli.events import Source
from agentcli.events.actions import MessageAction
from agentcli.events.progress import Notice
from agentcli.llm.catalog import Catalog
from agentcli.mcp.plan import Launch, ServerPlan, Site
from agentcli.mcp.servers import ToolServers
from agentcli.mcp.variables import MissingVariable, filled, uses_variables
from agentcli.sandbox.choosing import SpawnOptions
from agentcli.sessions.session import Session
from agentcli.settings import ServerSettings, Settings, is_server_name
from agentcli.system.homes import expanded
from agentcli.tools.base import Tool, ToolContext
from agentcli.tools.collection import TOOLS, ToolCollection

Learn = Callable[[str], None]
_MOST_NAMED = 20


def server_plans(
    settings: Settings, containment: Containment, learn: Learn = lambda secret: None
) -> list[ServerPlan]:
    """Of all servers that are enabled; `learn` is told the values of their variables, which are
    mostly secrets."""
    return [
        _plan(name, server, containment, learn)
        for name, server in settings.mcp_servers.items()
        if server.enabled
    ]


def start_servers(
    containment: Containment, session: Session, learn: Learn, undo: ExitStack
) -> ToolServers | None:
    """Begin to connect; `undo` ends them. None where there are none; nothing is loaded then."""
    settings = containment.settings
    if not (settings.tools.enable_mcp and settings.mcp_servers):
        return None
    plans = server_plans(settings, containment, learn)
    (session.folder / TMP_FOLDER).mkdir(mode=0o700, exist_ok=True)
    servers = ToolServers(plans, containment.workspace, lambda line: session.notify(Notice(line)))
    undo.callback(servers.close)
    servers.start()
    return servers


def session_tools(
    settings: Settings,
    context: ToolContext,
    servers: ToolServers | None,
    model: str,
    offered: Callable[[Iterable[Tool[Any]]], Iterable[Tool[Any]]],
) -> ToolCollection:
    """The tools of a session, those of its servers among them, as far as they are `offered` there;
    `model` is who is told of them."""
    tools = list(_enabled_tools(settings))
    if servers is None:
        return ToolCollection(offered(tools), context)
    from agentcli.mcp.tools import server_tools

    servers.wait()
    assert context.output_folder is not None
    window = settings.model.context_tokens or Catalog(settings.prices).context_tokens(model)
    most = window * settings.tools.mcp_schema_share
    more = server_tools(servers, context.output_folder, context.max_output_chars, most)
    return ToolCollection(offered([*tools, *more]), context)


def tell_of_servers(opened: OpenSession) -> None:
    """What the model must know of servers that are left out, and of tools that are gone since."""
    lines = list(opened.servers.faults()) if opened.servers is not None else []
    gone = [
        schema.name
        for schema in opened.agent.schemas
        if schema.name.startswith("mcp") and not opened.agent.tools.has(schema.name)
    ]
    if gone:
        lines.append(f"these tools are not there any more: {', '.join(gone[:_MOST_NAMED])}")
    for line in lines:
        opened.session.notify(Notice(line))
    if lines:
        told = f"[{'; '.join(lines)}]"
        opened.session.emit(MessageAction(content=told, source=Source.ENVIRONMENT))


def _enabled_tools(settings: Settings) -> Iterator[Tool[Any]]:
    """Raises ConfigError for a tool whose switch is no setting."""
    for tool in TOOLS.all().values():
        try:
            if not tool.switch or attrgetter(tool.switch)(settings):
                yield tool
        except AttributeError as error:
            told = f"the switch of the tool {tool.name} is no setting: {tool.switch}"
            raise ConfigError(told) from error


def _plan(name: str, server: ServerSettings, containment: Containment, learn: Learn) -> ServerPlan:
    plan = ServerPlan(
        name,
        None,
        timeout_s=server.timeout_s,
        start_timeout_s=server.start_timeout_s,
        wanted=tuple(server.tools),
        unwanted=tuple(server.disabled_tools),
    )
    if not is_server_name(name):
        return replace(plan, fault="its name may be of letters, digits, and single - or _ only")
    try:
        way = (
            _site(server, containment, learn) if server.url else _launch(server, containment, learn)
        )
    except MissingVariable as missing:
        return replace(plan, fault=str(missing))
    return replace(plan, way=way)


def _site(server: ServerSettings, containment: Containment, learn: Learn) -> Site:
    """Raises MissingVariable."""
    fill = _filler(containment, learn)
    headers = {name: fill(value) for name, value in server.headers.items()}
    return Site(fill(server.url), headers)


def _launch(server: ServerSettings, containment: Containment, learn: Learn) -> Launch:
    """Contained as commands are, unless the person said otherwise. Raises MissingVariable."""
    fill = _filler(containment, learn)
    own = {name: fill(value) for name, value in server.env.items()}
    cwd = str(containment.workspace / expanded(fill(server.cwd))) if server.cwd else ""
    folder = cwd or str(containment.workspace)
    sandbox = containment.sandbox
    contained = server.sandbox and sandbox.contains
    if contained:
        sandbox = replace(sandbox, network=sandbox.network or server.network)
        environment: Mapping[str, str] = containment.environment
    else:
        environment = containment.full_environment.environ

    def options() -> SpawnOptions:
        return sandbox.spawn_options(folder) if contained else SpawnOptions(folder)

    return Launch(
        (fill(server.command), *map(fill, server.args)),
        {**environment, **own},
        options,
        contained,
        network=sandbox.network or not contained,
    )


def _filler(containment: Containment, learn: Learn) -> Callable[[str], str]:
    def fill(text: str) -> str:
        value = filled(text, containment.environ, containment.keys)
        if uses_variables(text):
            learn(value)
        return value

    return fill


def command_text(server: ServerSettings) -> str:
    """How it is reached, in one line, with its variables as they are written."""
    return server.url or shlex.join([server.command, *server.args])
