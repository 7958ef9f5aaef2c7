"""What the session's bash and Python have in common: how both are followed, stopped and reported
on."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from agentcli.files.access_scope import AccessScope
from agentcli.files.names import OUTPUTS_VARIABLE
from agentcli.files.output_folder import OutputFolder
from agentcli.files.private import private_folder
from agentcli.sandbox.selection import NO_LAYER, Sandbox
from agentcli.shell.exchange import Exchange, Outcome
from agentcli.shell.output import HEAD_SHARE, Capture, LiveOutput, clean
from agentcli.shell.terminal import Terminal
from agentcli.system.processes import ENVIRONMENT_MARK

STARTS = 5
"""How often to try to start: paths that the sandbox hides may come and go."""
LATE_CHARS = 2000

OnOutput = Callable[[str], None] | None


@dataclass
class Running:
    """A running request, and the notes for its result."""

    exchange: Exchange
    notes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)


_NO_SANDBOX = Sandbox(NO_LAYER, AccessScope(Path("/"), Path("/"), ()))

RunningT = TypeVar("RunningT", bound=Running)
ResultT = TypeVar("ResultT")


@dataclass(kw_only=True, eq=False, repr=False)
class Interpreter(ABC, Generic[RunningT, ResultT]):
    """Runs one thing at a time, for one thread. An exception raised meanwhile (by a signal handler
    or `on_output`) stops it and is raised again; `last_result` then holds the partial result.

    `env` is the whole environment. Folders for pipes are created in `scratch`, and the sandbox is
    told to show them; it shows `outputs` anyway. Without a `sandbox`, nothing contains what runs
    except the resource limits that every command has.
    """

    _KIND: ClassVar[str]
    """The prefix of file names."""

    cwd: str
    """The folder as commands see it."""
    env: Mapping[str, str]
    scratch: Path
    outputs: OutputFolder
    max_chars: int = 30_000
    sandbox: Sandbox = _NO_SANDBOX

    def __post_init__(self) -> None:
        self.last_result: ResultT | None = None
        self.identity = os.urandom(8).hex()
        """Identifies all its processes, as AGENT_SHELL_ID in their environment."""
        self._marks = {ENVIRONMENT_MARK: self.identity, OUTPUTS_VARIABLE: str(self.outputs.path)}
        self._env = {**self.env, **self._marks}
        self._counter = 0
        self._followed: Terminal | None = None

    def kill_soon(self) -> None:
        """End what runs, together with its interpreter. Callable from any thread."""
        if self._followed is not None:
            self._followed.kill_soon()

    @abstractmethod
    def _await(self, running: RunningT, timeout: float, live: LiveOutput) -> tuple[Outcome, bool]:
        """Return the outcome, and whether the time limit stopped it."""

    @abstractmethod
    def _stop(self, running: RunningT) -> Outcome: ...

    @abstractmethod
    def _conclude(self, running: RunningT, outcome: Outcome, *, timed_out: bool) -> ResultT: ...

    def _follow(self, running: RunningT, timeout: float, on_output: OnOutput) -> ResultT:
        self._followed = running.exchange.terminal
        try:
            outcome, timed_out = self._await(running, timeout, LiveOutput(on_output))
        except BaseException:
            self._abandon(running)
            raise
        self.last_result = self._conclude(running, outcome, timed_out=timed_out)
        return self.last_result

    def _abandon(self, running: RunningT) -> None:
        """Stop what runs because of an exception; kill it if another one comes meanwhile."""
        outcome = Outcome.DIED
        running.notes.append("interrupted")
        try:
            outcome = self._stop(running)
        except BaseException:
            running.exchange.terminal.kill()
            raise
        finally:
            self.last_result = self._conclude(running, outcome, timed_out=False)

    def _late_output(self, running: RunningT) -> str:
        """Return what was written between the previous request and this one."""
        return clean(running.exchange.take_before()) if running.exchange.begun else ""

    def _open_ports(self, terminal: Terminal, pid: int) -> list[str]:
        """Let the sandbox around process `pid` reach its permitted ports for as long as the
        terminal is open; return notes for the model."""
        wanted = self.sandbox.host_ports if self.sandbox.own_loopback else ()
        if not wanted or terminal.ports is not None:
            return []
        from agentcli.sandbox.loopback import HostPorts

        terminal.ports = HostPorts(pid, wanted)
        return terminal.ports.failures

    def _next(self) -> int:
        self._counter += 1
        return self._counter

    def _new_folder(self) -> Path:
        return private_folder(self.scratch, f"{self._KIND}-{self.identity}-{self._next()}")

    def _capture(self, limit: int = 0, head_share: float = HEAD_SHARE) -> Capture:
        path = self.outputs.path / f"{self._KIND}-{self.identity[:6]}-{self._next()}.txt"
        return Capture(path, keep=limit, folder=self.outputs, head_share=head_share)

    def _existing_folder(self) -> str:
        """Return its folder as commands see it, or the nearest parent that still exists."""
        for place in (Path(self.cwd), *Path(self.cwd).parents):
            if self.sandbox.real_path(str(place)).is_dir():
                return str(place)
        return "/"
