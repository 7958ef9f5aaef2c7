"""Tool servers (MCP): list, add, remove, test, serve."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Unpack

from agentcli.api.options import SessionOptions
from agentcli.api.session import run
from agentcli.app.configuration.config import load_settings
from agentcli.app.configuration.places import PROJECT_FILE, user_file
from agentcli.app.configuration.settings_file import add_table, remove_table
from agentcli.app.configuration.trust import require_outside_session
from agentcli.app.server_plans import command_text, server_plans
from agentcli.app.user_commands import prompts, resources, takes
from agentcli.cli.builders import builder_for
from agentcli.cli.command import Command, CommandTarget, Report, ShellTarget
from agentcli.cli.error_reporting import internal_error
from agentcli.cli.options import Json, argument, option
from agentcli.cli.sessions.selector import clean_up_interrupted_work
from agentcli.cli.terminal import working
from agentcli.cli.user_paths import here, home, resolved_target
from agentcli.errors import AgentError, ConfigError, UsageError, internal_errors, os_error_text
from agentcli.mcp.servers import ToolServers
from agentcli.mcp.servers_file import FILE, check_name, server_values, with_server
from agentcli.mcp.values import ServerFeatures, one_line
from agentcli.sessions import search_index
from agentcli.settings import ServerSettings, named_servers
from agentcli.system.programs import user_environ
from agentcli.ui.summary import count
from agentcli.ui.text import Line, Span, printable, say
from agentcli.workspace.names import first_names
from agentcli.workspace.private import read_regular, replace_durably

ProjectFlag = Annotated[bool, option("--project", f"In {FILE} of this folder.")]
_MAX_BYTES = 1_000_000
_MOST_NAMED = 40


def project_file(workspace: Path) -> Path:
    return workspace / FILE


def has_server(name: str, workspace: Path, *, project: bool) -> bool:
    """Return whether a server of this name is set there. Raises ConfigError for a damaged file."""
    if project:
        text = _read(project_file(workspace))
        return bool(text.strip()) and _is_in(server_values(text, FILE, []), name)
    loaded = load_settings(user_environ(), workspace, on_fault=lambda fault: None)
    own = str(user_file(user_environ()))
    return own in (loaded.origins.get(f"mcp_servers.{name}.{way}") for way in ("command", "url"))


def origin_of(name: str, workspace: Path) -> str:
    """Return the file that sets the server; if several do, the one that counts."""
    for project in (False, True):
        if has_server(name, workspace, project=project):
            return str(project_file(workspace) if project else user_file(user_environ()))
    return str(PROJECT_FILE)


def write_project(workspace: Path, name: str, server: Mapping[str, Any] | None) -> None:
    """Set the server in .mcp.json, or remove it. Raises ConfigError."""
    path = project_file(workspace)
    try:
        real = resolved_target(path)
        replace_durably(real, with_server(_read(real), FILE, name, server))
    except OSError as error:
        raise ConfigError(f"{path} can't be written: {os_error_text(error)}") from error


def named_in(texts: Sequence[str]) -> dict[str, str]:
    """Parse texts of the form NAME=VALUE. Raises UsageError."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not equals or not name:
            raise UsageError(f"{name!r} is not NAME=VALUE", hint="agent mcp add --help")
    return {name: value for name, _, value in pairs}


def _is_in(values: Mapping[str, Any], name: str) -> bool:
    return any(key.startswith(f"mcp_servers.{name}.") for key in values)


def _read(path: Path) -> bytes:
    try:
        return read_regular(path, _MAX_BYTES, follow=True)[0]
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise ConfigError(f"{path} can't be read: {os_error_text(error)}") from error


def list_servers(target: CommandTarget) -> Report:
    """Show the tool servers of this conversation: their state, and what they offer.

    Their tools are for the model. A server's prompt is a command, /mcp__server__prompt, and a
    resource is mentioned as @server:uri. agent mcp adds and removes servers; in a shell, those that
    sessions in this folder have are listed, and none of them is started.

    Examples:
      agent mcp list
      agent mcp list --json
    """
    if target.opened is not None and target.opened.servers is not None:
        return Report(list(_state_lines(target.opened.servers)))
    builder = target.builder
    rows = [
        _row(name, server) for name, server in named_servers(builder.settings.mcp_servers).items()
    ]
    lines: list[Line] = []
    for row in rows:
        row["origin"] = origin_of(row["name"], builder.workspace)
        told = f"{row['name']:<16} {_kept_in(row):<22} {row['command'] or row['url']}"
        lines.append([Span(printable(f"{told}  # {row['origin']}", multiline=False))])
    note = "there are no tool servers here: agent mcp add --help"
    if rows:
        note = "" if isinstance(target, ShellTarget) else "they start with the first message"
    return Report(lines, list(filter(None, [note])), data=rows)


def _state_lines(servers: ToolServers) -> Iterator[Line]:
    for plan, state, features in servers.states():
        shown = printable(state, multiline=False)
        yield [Span(plan.name, "bold"), Span(f"  {shown}", "dim" if features else "yellow")]
        if features is not None:
            names = [one_line(tool.name) for tool in features.tools]
            listed = printable(first_names(names, _MOST_NAMED))
            yield [Span(f"  {count(len(names), 'tool')}: {listed}")]
    for name, _, prompt in islice(prompts(servers), _MOST_NAMED):
        about = printable(one_line(prompt.description), multiline=False)
        yield [Span(f"  /{name} {printable(takes(prompt))}"), Span(f"  {about}", "dim")]
    for mention, told in islice(resources(servers), _MOST_NAMED):
        yield [Span(f"  {printable(mention)}"), Span(f"  {printable(told)}", "dim")]


SERVERS = Command(list_servers)


def _row(name: str, server: ServerSettings) -> dict[str, Any]:
    return {
        "name": name,
        "command": "" if server.url else command_text(server),
        "url": server.url,
        "enabled": server.enabled,
        "sandbox": server.sandbox,
        "network": server.network,
    }


def _kept_in(row: dict[str, Any]) -> str:
    if not row["enabled"]:
        return "off"
    if row["url"]:
        return "site"
    if not row["sandbox"]:
        return "no sandbox"
    return "sandbox with network" if row["network"] else "sandbox"


def add_server(
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
    """Add a tool server: a program after --, or a site by --url.

    It is added to your settings or, with --project, to .mcp.json of this folder, which takes effect
    once the folder is trusted. A program runs in the sandbox of commands, without the network
    unless you add --network. Variables are written as ${NAME}, in quotes, and read when the server
    starts.

    Examples:
      agent mcp add clock --network -- uvx mcp-server-time
      agent mcp add tickets --url https://example.org/mcp --header 'Authorization=Bearer ${TOKEN}'
      agent mcp add notes --project --env 'NOTES=${HOME}/notes' -- npx -y @example/notes-server
    """
    require_outside_session(user_environ(), "no session may change settings")
    check_name(name)
    if bool(command) == bool(url):
        raise UsageError("a server has a command or a url, one of them", hint="agent mcp add -h")
    if project and (network or no_sandbox):
        told = "a project can't decide how a server is contained"
        raise UsageError(told, hint=f"agent config set mcp_servers.{name}.network true")
    program, *arguments = command or [""]
    values: dict[str, Any] = {"url": url, "command": program, "args": arguments}
    values |= {"env": named_in(env or ()), "headers": named_in(header or ())}
    values = {key: value for key, value in values.items() if value}
    place = project_file(here()) if project else user_file(user_environ())
    if has_server(name, here(), project=project):
        raise UsageError(f"{place} already has a server {name}", hint=f"agent mcp remove {name}")
    if project:
        write_project(here(), name, values)
        say(f"{name} is in {place}; it takes effect once this folder is trusted: agent trust")
        return 0
    values |= {"network": True} if network else {}
    values |= {"sandbox": False} if no_sandbox else {}
    add_table(place, "mcp_servers", name, values)
    say(f"{name} is in {place}; try it: agent mcp test {name}")
    return 0


def remove_server(
    name: Annotated[str, argument("NAME")],
    project: ProjectFlag = False,
) -> None:
    """Remove a tool server from your settings or from this project's.

    With --project, it is removed from .mcp.json of this folder.

    Examples:
      agent mcp remove clock
    """
    require_outside_session(user_environ(), "no session may change settings")
    place = project_file(here()) if project else user_file(user_environ())
    if not has_server(name, here(), project=project):
        raise UsageError(f"{place} has no server {name!r}", hint="agent mcp list")
    if project:
        write_project(here(), name, None)
    else:
        remove_table(place, "mcp_servers", name)
    say(f"{name} is removed from {place}")


_MOST_CHARS = 100


def try_servers(
    name: Annotated[str | None, argument("NAME", "All if left out.")] = None,
    as_json: Json = False,
) -> int:
    """Start tool servers as a session would, and show what they offer.

    Exits 1 when one of them does not work.

    Examples:
      agent mcp test
      agent mcp test --json
    """
    builder = builder_for(here())
    known = named_servers(builder.settings.mcp_servers)
    if name is not None and name not in known:
        raise UsageError(f"there is no tool server {name!r}", hint="agent mcp list")
    if not known:
        raise UsageError("there are no tool servers here", hint="agent mcp add --help")
    with TemporaryDirectory(prefix="agent-mcp-") as folder:
        (Path(folder) / "tmp").mkdir(mode=0o700)
        containment = builder.containment(Path(folder), attended=True)
        plans = [plan for plan in server_plans(containment) if name in (None, plan.name)]
        servers = ToolServers(plans, here(), lambda line: None)
        try:
            with working("starting them"):
                servers.start()
                servers.wait()
            rows = [(plan.name, state, features) for plan, state, features in servers.states()]
        finally:
            servers.close()
    if as_json:
        offers = [
            {"name": name, "state": state, "offer": features and asdict(features)}
            for name, state, features in rows
        ]
        print(json.dumps(offers, indent=2))
    else:
        for row in rows:
            _print(*row)
    return 0 if all(features is not None for _, _, features in rows) else 1


def _print(name: str, state: str, features: ServerFeatures | None) -> None:
    if features is None:
        print(f"{name}: {printable(state, multiline=False)}", file=sys.stderr)
        return
    print(printable(f"{name}: {state} ({features.title})", multiline=False))
    for tool in features.tools:
        _test_row("tool", tool.name, tool.description)
    for tool_name, why in features.unfit:
        _test_row("left out", tool_name, why)
    for prompt in features.prompts:
        _test_row("prompt", f"/mcp__{name}__{prompt.name}", prompt.description)
    for resource in features.resources:
        _test_row("resource", f"@{name}:{resource.uri}", resource.description or resource.name)


def _test_row(kind: str, name: str, told: str) -> None:
    text = f"  {kind:<9} {name:<28} {one_line(told)[:_MOST_CHARS]}"
    print(printable(text, multiline=False).rstrip())


_MOST_HITS = 20


def serve() -> None:
    """Offer the agent as a tool server on stdin and stdout, to other assistants and editors.

    It has three tools: run (a task in a folder), resume (a session) and sessions_search. Whatever
    would need your approval is denied, as in every run that nobody watches.

    Examples:
      agent mcp serve
    """
    require_outside_session(user_environ(), "a session can't serve the agent")
    from agentcli.mcp.serve import serve as serve_tools

    clean_up_interrupted_work()
    serve_tools(
        lambda task, folder: _work(task, workspace=folder),
        lambda session, message: _work(message, session_id=session),
        _search,
    )


def _work(message: str, **options: Unpack[SessionOptions]) -> str:
    """Return the agent's answer. Raises AgentError if the work failed."""
    with internal_errors(internal_error):
        result = run(message, **options)
    ending = result.ending
    text = f"{result.answer}\n\n[session {result.session_id}, {ending.agent_state}]".strip()
    if result.exit_code:
        raise AgentError("\n".join(filter(None, (ending.content, text))))
    return text


def _search(query: str) -> str:
    hits = search_index.search(home(), query, None, limit=_MOST_HITS)
    rows = [f"{hit.session_id}  event {hit.event_id}  {hit.kind}: {hit.snippet}" for hit in hits]
    return "\n".join(rows) or "nothing found"


COMMAND = {
    "list": SERVERS.in_shell("none"),
    "add": add_server,
    "remove": remove_server,
    "test": try_servers,
    "serve": serve,
}
