"""How each tool server is reached, with nothing left to look up."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from agentcli.sandbox.choosing import SpawnOptions


@dataclass(frozen=True)
class Launch:
    """A program that is started: `options` prepares its sandbox, which may raise OSError."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    options: Callable[[], SpawnOptions]
    contained: bool
    network: bool


@dataclass(frozen=True)
class Site:
    """A server that is reached by HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ServerPlan:
    """`way` None: it can't be reached, `fault` says why. `wanted` and `unwanted`: names of its
    tools, with * for any text; no `wanted` are all."""

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
