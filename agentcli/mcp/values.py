"""Tool servers as data: how each is reached, what it offers and answers, its tools as schemas."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from agentcli.events.actions import server_tool_name
from agentcli.messages import ToolSchema
from agentcli.sandbox.selection import SpawnOptions
from agentcli.shell.output import clean
from agentcli.tools.base import parameters


@dataclass(frozen=True)
class StdioServer:
    """A server that is a program to start. `options` prepares its sandbox and may raise OSError."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    options: Callable[[], SpawnOptions]
    contained: bool
    network: bool


@dataclass(frozen=True)
class HttpServer:
    """A server that is reached over HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerPlan:
    """How to reach one server. If `transport` is None it can't be reached, and `fault` says
    why. `include_tools` and `exclude_tools` are names of its tools, with * for any text; an empty
    `include_tools` means all."""

    name: str
    transport: StdioServer | HttpServer | None
    fault: str = ""
    timeout_s: float = 120.0
    start_timeout_s: float = 15.0
    include_tools: Sequence[str] = ()
    exclude_tools: Sequence[str] = ()

    def includes(self, tool: str) -> bool:
        included = not self.include_tools or any(
            fnmatchcase(tool, each) for each in self.include_tools
        )
        return included and not any(fnmatchcase(tool, each) for each in self.exclude_tools)


@dataclass(frozen=True)
class Answer:
    """The answer of a tool, a resource or a prompt. `images` are data URLs; `error` means that the
    tool failed."""

    text: str = ""
    images: tuple[str, ...] = ()
    structured: dict[str, Any] | None = None
    error: bool = False


@dataclass(frozen=True)
class ServerTool:
    """A tool as its server describes it: `name` and `description` are the server's words."""

    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False
    """Whether the server claims that the tool only reads; not verified."""


@dataclass(frozen=True)
class ServerPrompt:
    """A prompt of a server. Each of `arguments` is a name, and whether it is required."""

    name: str
    description: str = ""
    arguments: Sequence[tuple[str, bool]] = ()


@dataclass(frozen=True)
class ServerResource:
    uri: str
    name: str = ""
    description: str = ""


@dataclass(frozen=True)
class ServerFeatures:
    """Everything that a server offers. `title` is the name it gives itself, with its version."""

    title: str = ""
    tools: Sequence[ServerTool] = ()
    prompts: Sequence[ServerPrompt] = ()
    resources: Sequence[ServerResource] = ()
    may_change: bool = False
    """Whether the server announces changes of its tools."""
    unfit: Sequence[tuple[str, str]] = ()
    """Tools that can't be used, each with the reason."""


MOST_DESCRIPTION_CHARS = 2_000


def tool_schema(server: str, tool: ServerTool) -> ToolSchema:
    """Return the schema of a server's tool. Its description is marked as the server's words."""
    text = one_line(tool.description)[:MOST_DESCRIPTION_CHARS]
    text = f"[{server} says:] {text}" if text else f"[{server} does not say what it does]"
    return ToolSchema(server_tool_name(server, tool.name), text, parameters(tool.schema))


def one_line(text: str) -> str:
    """Put `text` on one line, without control characters, as it is shown on screens too."""
    return " ".join(clean(text.encode("utf-8", "replace")).split())
