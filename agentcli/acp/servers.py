"""Tool servers that an editor hands over for a session, as settings of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable

from acp.schema import AcpMcpServer, HttpMcpServer, McpServerStdio, SseMcpServer

from agentcli.errors import ConfigError
from agentcli.settings import ServerSettings, Settings, is_server_name

Given = HttpMcpServer | SseMcpServer | AcpMcpServer | McpServerStdio

_LONGEST_NAME = 32
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9]+")


def with_servers(settings: Settings, given: Iterable[Given], notices: list[str]) -> Settings:
    """`settings` with the servers of the editor, contained as any other; a line for each that is
    left out. What the person has set for a name holds: all of a server that they have themselves,
    and what they let one do whose way is told by others."""
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
    """What a server that its editor calls so is called here: "IntelliJ IDEA" is IntelliJ-IDEA."""
    return _NOT_IN_NAMES.sub("-", told)[:_LONGEST_NAME].strip("-")


def _way(server: Given) -> dict[str, object]:
    """How it is reached. Raises ConfigError."""
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
            raise ConfigError("the old transport sse is not spoken")
    raise ConfigError("a server of the editor itself can't be reached")


def _literal(text: str) -> str:
    """An editor has filled its variables in already: nothing in `text` is one of ours."""
    return text.replace("${", "${_AGENT_LITERAL:-$}{")
