"""How to reach each tool server, with everything looked up already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from agentcli.sandbox.selection import SpawnOptions


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
