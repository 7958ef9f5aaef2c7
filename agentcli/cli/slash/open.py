"""Reach a server that was started here from your browser: /open 9123.

Until the session is closed, the server's port in the sandbox is reachable at 127.0.0.1, at the same
port number if that is free. /open alone lists the open ports; /open 9123 again closes that one.
"""

from __future__ import annotations

import os

from agentcli.app.containment import ITS_PAGES, open_port
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand, number
from agentcli.errors import UsageError
from agentcli.ui.text import Span

_HIGHEST_PORT = 65_535


def open_(conversation: Conversation, argument: str) -> None:
    if conversation.opened is None:
        raise UsageError("nothing was started yet", hint="say what is to be done")
    ports = conversation.opened.open_ports
    if not argument:
        lines = [[Span(opened.url)] for opened in ports.values()]
        conversation.print(*(lines or [[Span("no port is open: /open PORT", "dim")]]))
        return
    port = number(argument, "/open 9123")
    if port > _HIGHEST_PORT:
        raise UsageError(f"there is no port {port}", hint=f"they go up to {_HIGHEST_PORT}")
    if before := ports.pop(port, None):
        before.close()
        conversation.tell(f"port {port} is closed")
        return
    opened = open_port(os.getpid(), port)
    if opened is None:
        conversation.print([Span(f"http://127.0.0.1:{port}/")])
        return
    ports[port] = opened
    conversation.print([Span(opened.url), Span(f"  {ITS_PAGES}", "dim")])


SLASH_COMMAND = SlashCommand(open_, takes="[PORT]", at_once=True)
