"""How the tool servers of a session are reached, by its settings. Loaded where there are any."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace

from agentcli.app.sandbox import Containment
from agentcli.mcp.plan import Launch, ServerPlan, Site
from agentcli.mcp.variables import MissingVariable, filled
from agentcli.sandbox.choosing import SpawnOptions
from agentcli.security.secret_variables import masked_values
from agentcli.settings import ServerSettings, Settings, is_server_name, named_servers
from agentcli.system.homes import expanded

Learn = Callable[..., None]


def server_plans(
    settings: Settings, containment: Containment, learn: Learn = lambda *secrets: None
) -> list[ServerPlan]:
    """Of all servers that are enabled; `learn` is told the secrets that they are given."""
    return [
        _plan(name, server, containment, learn)
        for name, server in named_servers(settings.mcp_servers).items()
        if server.enabled
    ]


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
    fill = _filler(containment)
    headers = {name: fill(value) for name, value in server.headers.items()}
    for value in headers.values():
        # As in "Bearer TOKEN".
        learn(*masked_values({"TOKEN": value.rpartition(" ")[2]}))
    return Site(fill(server.url), headers)


def _launch(server: ServerSettings, containment: Containment, learn: Learn) -> Launch:
    """Contained as commands are, unless the person said otherwise. Raises MissingVariable."""
    fill = _filler(containment)
    own = {name: fill(value) for name, value in server.env.items()}
    learn(*masked_values(own))
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


def _filler(containment: Containment) -> Callable[[str], str]:
    return lambda text: filled(text, containment.environ, containment.keys)


def command_text(server: ServerSettings) -> str:
    """How it is reached, in one line, with its variables as they are written."""
    return server.url or shlex.join([server.command, *server.args])
