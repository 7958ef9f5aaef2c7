"""Describe the tools of servers to the model. What a server says about itself is untrusted text:
it is marked as such, and its size is limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentcli.events.actions import server_tool_name
from agentcli.messages import ToolSchema
from agentcli.shell.output import clean
from agentcli.tools.json_schema import parameters

if TYPE_CHECKING:
    from agentcli.mcp.answers import ServerTool

MOST_DESCRIPTION_CHARS = 2_000


def tool_schema(server: str, tool: ServerTool) -> ToolSchema:
    """Return the schema of a server's tool. Its description is marked as the server's words."""
    text = one_line(tool.description)[:MOST_DESCRIPTION_CHARS]
    told = f"[{server} says:] {text}" if text else f"[{server} does not say what it does]"
    return ToolSchema(server_tool_name(server, tool.name), told, parameters(tool.schema))


def one_line(text: str) -> str:
    """Put `text` on one line, without control characters, as it is shown on screens too."""
    return " ".join(clean(text.encode("utf-8", "replace")).split())
