"""Turns the tool servers that an editor hands over into settings."""

from __future__ import annotations

import re
from collections.abc import Iterable

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from agentcli.errors import ConfigError
from agentcli.settings import ServerSettings, Settings, is_server_name

EditorServer = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio

_LONGEST_NAME = 32
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


def with_servers(settings: Settings, given: Iterable[EditorServer], notices: list[str]) -> Settings:
    """Add the editor's servers to `settings`; they are contained like any other. For each one that
    is left out a line is added to `notices`. What the user has set under a name stays: a whole
    server of their own, or what they let the editor's server do."""
    servers = dict(settings.mcp_servers)
    for server in given:
        name = server_name(server.name)
        own = servers.get(name)
        try:
            if not is_server_name(name):
                raise ConfigError("its name has no letter or digit")
            if own is not None and (own.command or own.url):
                raise ConfigError(f"there is one named {name} already")
            way = _way(server)
            servers[name] = (own or ServerSettings()).model_copy(update=way)
        except ConfigError as fault:
            notices.append(f"the editor's tool server {server.name!r} is left out: {fault.message}")
    return settings.model_copy(update={"mcp_servers": servers})


def server_name(told: str) -> str:
    """Return the name of an editor's server here: "IntelliJ IDEA" becomes IntelliJ-IDEA."""
    return _NOT_IN_NAMES.sub("-", told)[:_LONGEST_NAME].strip("-")


def _way(server: EditorServer) -> dict[str, object]:
    """Return the settings by which a server is reached. Raises ConfigError."""
    match server:
        case McpServerStdio():
            if not server.command:
                raise ConfigError("it has no command")
            env = {each.name: _literal(each.value) for each in server.env}
            args = list(map(_literal, server.args))
            return {"command": _literal(server.command), "args": args, "env": env}
        case HttpMcpServer():
            if not server.url.startswith(("http://", "https://")):
                raise ConfigError("its url must begin with http:// or https://")
            headers = {each.name: _literal(each.value) for each in server.headers}
            return {"url": _literal(server.url), "headers": headers}
        case SseMcpServer():
            raise ConfigError("the old SSE transport is not supported")
    raise ConfigError("a server of the editor itself can't be reached")


def _literal(text: str) -> str:
    """Escape `text`, so that nothing in it is taken for a variable: the editor has expanded its
    own already."""
    return text.replace("${", "${_AGENT_LITERAL:-$}{")
