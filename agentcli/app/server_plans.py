"""How to reach the tool servers in a session's settings. Loaded only if there are any."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from agentcli.app.containment import Containment
from agentcli.mcp.servers_file import MissingVariable, filled
from agentcli.mcp.values import HttpServer, ServerPlan, StdioServer
from agentcli.sandbox.scope_finder import why_not_shown
from agentcli.sandbox.selection import BUBBLEWRAP, Sandbox, SpawnOptions
from agentcli.security.redact import masked_values
from agentcli.settings import ServerSettings, is_server_name, named_servers
from agentcli.system.homes import expanded
from agentcli.workspace.scope import TMP

Learn = Callable[..., None]


def server_plans(
    containment: Containment, learn: Learn = lambda *secrets: None
) -> list[ServerPlan]:
    """Return the plans of all enabled servers; `learn` gets the secrets that they are given."""
    return [
        _plan(name, server, containment, learn)
        for name, server in named_servers(containment.settings.mcp_servers).items()
        if server.enabled
    ]


def _plan(name: str, server: ServerSettings, containment: Containment, learn: Learn) -> ServerPlan:
    plan = ServerPlan(
        name,
        None,
        timeout_s=server.timeout_s,
        start_timeout_s=server.start_timeout_s,
        include_tools=tuple(server.tools),
        exclude_tools=tuple(server.disabled_tools),
    )
    if not is_server_name(name):
        return replace(plan, fault="its name may be of letters, digits, and single - or _ only")
    try:
        transport = (
            _http_server(server, containment, learn)
            if server.url
            else _stdio_server(server, containment, learn)
        )
    except MissingVariable as missing:
        return replace(plan, fault=str(missing))
    return replace(plan, transport=transport)


def _http_server(server: ServerSettings, containment: Containment, learn: Learn) -> HttpServer:
    """Raises MissingVariable."""
    fill = _filler(containment)
    headers = {name: fill(value) for name, value in server.headers.items()}
    for value in headers.values():
        # Such as "Bearer TOKEN".
        learn(*masked_values({"TOKEN": value.rpartition(" ")[2]}))
    return HttpServer(fill(server.url), headers)


def _stdio_server(server: ServerSettings, containment: Containment, learn: Learn) -> StdioServer:
    """Return how to start the server: contained like commands, unless the user decided otherwise.
    Raises MissingVariable."""
    fill = _filler(containment)
    own = {name: fill(value) for name, value in server.env.items()}
    learn(*masked_values(own))
    command = (fill(server.command), *map(fill, server.args))
    cwd = str(containment.workspace / expanded(fill(server.cwd))) if server.cwd else ""
    folder = cwd or str(containment.workspace)
    sandbox = containment.sandbox
    contained = server.sandbox and sandbox.contains
    if contained:
        places = _program_places([*command, cwd], sandbox)
        scope = replace(sandbox.scope, user_named=[*sandbox.scope.user_named, *places])
        sandbox = replace(sandbox, network=sandbox.network or server.network, scope=scope)
        environment: Mapping[str, str] = containment.environment
    else:
        environment = containment.full_environment.environ

    def options() -> SpawnOptions:
        return sandbox.spawn_options(folder) if contained else SpawnOptions(folder)

    return StdioServer(
        command,
        {**environment, **own},
        options,
        contained,
        network=sandbox.network or not contained,
    )


def _program_places(words: Iterable[str], sandbox: Sandbox) -> Iterator[Path]:
    """Yield the folders of the real /tmp that a server's program needs to see, judging by the paths
    in its command line: a script's folder; for `bin/program`, the folder around `bin`."""
    for word in words:
        path = Path(os.path.normpath(word))
        if not path.is_relative_to(TMP) or path == TMP or not path.exists():
            continue
        place = path if path.is_dir() else path.parent
        place = place.parent if place.name == "bin" else place
        place = path if place == TMP else place
        unseen = sandbox.layer != BUBBLEWRAP or sandbox.real_path(str(place)) != place
        if unseen and not why_not_shown(place, sandbox.view):
            yield place


def _filler(containment: Containment) -> Callable[[str], str]:
    return lambda text: filled(text, containment.environ, containment.keys)


def command_text(server: ServerSettings) -> str:
    """Return in one line how the server is reached, with its variables unexpanded."""
    return server.url or shlex.join([server.command, *server.args])
