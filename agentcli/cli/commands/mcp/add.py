"""Add a tool server: a program after --, or a site by --url.

It is added to your settings or, with --project, to .mcp.json of this folder, which takes effect
once the folder is trusted. A program runs in the sandbox of commands, without the network unless
you add --network. Variables are written as ${NAME}, in quotes, and read when the server starts.

Examples:
  agent mcp add clock --network -- uvx mcp-server-time
  agent mcp add tickets --url https://mcp.example.org/mcp --header 'Authorization=Bearer ${TOKEN}'
  agent mcp add notes --project --env 'NOTES=${HOME}/notes' -- npx -y @example/notes-server
"""

from __future__ import annotations

from typing import Annotated, Any

from agentcli.app.configuration.places import user_file
from agentcli.app.configuration.settings_file import add_table
from agentcli.app.configuration.trust import require_outside_session
from agentcli.cli.mcp_settings import ProjectFlag, has_server, named_in, project_file, write_project
from agentcli.cli.options import argument, option
from agentcli.cli.user_paths import here
from agentcli.errors import UsageError
from agentcli.mcp.servers_file import check_name
from agentcli.system.programs import user_environ
from agentcli.ui.text import say


def add(
    name: Annotated[str, argument("NAME", "Letters, digits, - and _.")],
    command: Annotated[
        list[str] | None, argument("[-- COMMAND…]", "Its program and arguments.")
    ] = None,
    url: Annotated[str, option("--url", "Of a server reached by HTTP.")] = "",
    env: Annotated[
        list[str] | None, option("--env, -e", "NAME=VALUE, for its environment.")
    ] = None,
    header: Annotated[
        list[str] | None, option("--header", "NAME=VALUE, of each HTTP request.")
    ] = None,
    network: Annotated[bool, option("--network", "Let it reach the network.")] = False,
    no_sandbox: Annotated[bool, option("--no-sandbox", "Let it run with all your rights.")] = False,
    project: ProjectFlag = False,
) -> int:
    require_outside_session(user_environ(), "no session may change settings")
    check_name(name)
    if bool(command) == bool(url):
        raise UsageError("a server has a command or a url, one of them", hint="agent mcp add -h")
    if project and (network or no_sandbox):
        told = "a project can't decide how a server is contained"
        raise UsageError(told, hint=f"agent config set mcp_servers.{name}.network true")
    values: dict[str, Any] = {"url": url} if url else {"command": (command or [""])[0]}
    values |= {"args": command[1:]} if command and command[1:] else {}
    values |= {"env": named_in(env)} if env else {}
    values |= {"headers": named_in(header)} if header else {}
    place = project_file(here()) if project else user_file(user_environ())
    if has_server(name, here(), project=project):
        raise UsageError(f"{place} already has a server {name}", hint=f"agent mcp remove {name}")
    if project:
        write_project(here(), name, values)
        say(f"{name} is in {place}; it takes effect once this folder is trusted: agent trust")
        return 0
    rights = {"network": True} if network else {}
    rights |= {"sandbox": False} if no_sandbox else {}
    add_table(place, "mcp_servers", name, {**values, **rights})
    say(f"{name} is in {place}; try it: agent mcp test {name}")
    return 0


COMMAND = add
