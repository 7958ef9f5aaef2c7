"""How to reach each tool server, with everything looked up already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from agentcli.sandbox.choosing import SpawnOptions


@dataclass(frozen=True)
class Launch:
    """A server that is a program to start. `options` prepares its sandbox and may raise OSError."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    options: Callable[[], SpawnOptions]
    contained: bool
    network: bool


@dataclass(frozen=True)
class Site:
    """A server that is reached over HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerPlan:
    """How to reach one server. If `way` is None it can't be reached, and `fault` says why. `wanted`
    and `unwanted` are names of its tools, with * for any text; an empty `wanted` means all."""

    name: str
    way: Launch | Site | None
    fault: str = ""
    timeout_s: float = 120.0
    start_timeout_s: float = 15.0
    wanted: Sequence[str] = ()
    unwanted: Sequence[str] = ()

    def offers(self, tool: str) -> bool:
        wanted = not self.wanted or any(fnmatchcase(tool, each) for each in self.wanted)
        return wanted and not any(fnmatchcase(tool, each) for each in self.unwanted)
