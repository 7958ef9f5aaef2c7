"""Show the tool servers of this conversation: their state, and what they offer.

Their tools are for the model. A server's prompt is a command, /mcp__server__prompt, and a resource
is mentioned as @server:uri. agent mcp adds and removes servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from agentcli.app.server_plans import command_text
from agentcli.app.user_commands import prompts, resources, takes
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.mcp.servers import ToolServers
from agentcli.mcp.values import one_line
from agentcli.settings import named_servers
from agentcli.ui.summary import count
from agentcli.ui.text import Line, Span, printable
from agentcli.workspace.names import first_names

_MOST_NAMED = 40


def mcp(conversation: Conversation, argument: str) -> None:
    opened = conversation.opened
    if opened is not None and opened.servers is not None:
        conversation.print(*_server_lines(opened.servers))
        return
    known = named_servers(conversation.settings.mcp_servers)
    lines: list[Line] = [
        [Span(name, "bold"), Span(f"  {printable(command_text(server), multiline=False)}")]
        for name, server in known.items()
    ]
    told = "they start with the first message" if known else "there are none: agent mcp add --help"
    conversation.print(*lines, [Span(told, "dim")])


def _server_lines(servers: ToolServers) -> Iterator[Line]:
    for plan, state, features in servers.states():
        shown = printable(state, multiline=False)
        yield [Span(plan.name, "bold"), Span(f"  {shown}", "dim" if features else "yellow")]
        if features is not None:
            names = [one_line(tool.name) for tool in features.tools]
            listed = printable(first_names(names, _MOST_NAMED))
            yield [Span(f"  {count(len(names), 'tool')}: {listed}")]
    for name, _, prompt in islice(prompts(servers), _MOST_NAMED):
        yield [Span(f"  /{name} {printable(takes(prompt))}"), Span(f"  {_help(prompt)}", "dim")]
    for mention, told in islice(resources(servers), _MOST_NAMED):
        yield [Span(f"  {printable(mention)}"), Span(f"  {printable(told)}", "dim")]


def _help(prompt: object) -> str:
    return printable(one_line(getattr(prompt, "description", "")), multiline=False)


SLASH_COMMAND = SlashCommand(mcp, at_once=True)
