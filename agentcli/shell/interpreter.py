"""What the session's bash and Python have in common: how both are started, followed, stopped and
reported on.
"""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from agentcli.interrupts import shield
from agentcli.sandbox.selection import NO_LAYER, Sandbox
from agentcli.shell.output import HEAD_SHARE, Capture, LiveOutput, clean
from agentcli.shell.terminal import Terminal
from agentcli.shell.terminal_request import Outcome, TerminalRequest, stop
from agentcli.system.processes import ENVIRONMENT_MARK, ProcessHandle
from agentcli.workspace.names import OUTPUTS_VARIABLE
from agentcli.workspace.private import OutputFolder, private_folder
from agentcli.workspace.scope import AccessScope

_STARTS = 5
"""How often to try to start: paths that the sandbox hides may come and go."""
LATE_CHARS = 2000

OnOutput = Callable[[str], None] | None


class NotStarted(OSError):
    """What surrounds the program ended before it started. A path to be hidden or shown may have
    vanished meanwhile, so another try may succeed."""


class InterpreterProcess(ABC):
    """A process on a terminal that runs what we request, and reports on it. `name` is for
    messages."""

    _READY_S: ClassVar[float]

    def __init__(self, name: str, terminal: Terminal) -> None:
        self.terminal = terminal
        self.has_answered = False
        self.late = (b"", b"")
        """Output after the end of the last request, by processes that it left behind."""
        self._name = name
        self._leader: ProcessHandle | None = None
        self._token = os.urandom(8).hex()
        self._requests = 0

    @property
    def alive(self) -> bool:
        return self.terminal.alive and (self._leader is None or self._leader.alive)

    @property
    def reachable(self) -> bool:
        """False once something that it ran has removed a pipe."""
        return self.terminal.report_path.exists()

    @property
    def leader(self) -> int:
        """The pid of the interpreter itself as our process sees it; not that of a sandbox around
        it."""
        return self._leader.pid if self._leader else self.terminal.pid

    def await_ready(self, capture: Capture) -> TerminalRequest:
        """Wait until it answers for the first time. Raises NotStarted if it ends first, OSError if
        it doesn't answer."""
        request = self._first_request(capture)
        outcome = request.wait(self._READY_S)
        if outcome is not Outcome.DONE:
            said = clean(request.take_before()).strip()
            why = f"{self._name} did not start: {said or outcome.value}"
            raise NotStarted(why) if outcome is Outcome.DIED else OSError(why)
        self.has_answered = True
        self._leader = self.terminal.foreground_leader()
        return request

    @abstractmethod
    def _first_request(self, capture: Capture) -> TerminalRequest:
        """Begin a request that only has to be answered."""

    def stop(self, request: TerminalRequest) -> Outcome:
        """Stop what runs, within 5 s."""
        return stop(request, self._leader)

    def exit_code(self) -> int:
        """Return the exit code of a process that is not alive, after ending what it left
        running."""
        self.terminal.kill()
        self.terminal.reap()
        return self.terminal.exit_code

    def close(self) -> None:
        self.terminal.close()
        if self._leader is not None:
            self._leader.close()

    def _nonce(self) -> str:
        self._requests += 1
        return f"{self._token}{self._requests}"


ProcessT = TypeVar("ProcessT", bound=InterpreterProcess)


@dataclass
class Running(Generic[ProcessT]):
    """A running request, and the notes for its result."""

    request: TerminalRequest
    process: ProcessT
    notes: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.monotonic)


_NO_SANDBOX = Sandbox(NO_LAYER, AccessScope(Path("/"), Path("/"), ()))

RunningT = TypeVar("RunningT", bound=Running[Any])
ResultT = TypeVar("ResultT")


@dataclass(kw_only=True, eq=False, repr=False)
class Interpreter(ABC, Generic[ProcessT, RunningT, ResultT]):
    """Runs one thing at a time, for one thread. An exception raised meanwhile (by a signal handler
    or `on_output`) stops it and is raised again; `last_result` then holds the partial result.

    `env` is the whole environment. Folders for pipes are created in `scratch`, and the sandbox is
    told to show them; it shows `outputs` anyway. Without a `sandbox`, nothing contains what runs
    except the resource limits that every command has.
    """

    _KIND: ClassVar[str]
    """The prefix of file names."""
    _NAME: ClassVar[str]
    """In messages."""

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
        self._process: ProcessT | None = None
        self._followed: Terminal | None = None

    def start(self) -> None:
        """Start the process and return at once. Raises OSError if it can't be started."""
        if self._process is None:
            self._spawn()

    @abstractmethod
    def restart(self) -> None:
        """Start a fresh process."""

    def kill_soon(self) -> None:
        """End what runs, together with its interpreter. Callable from any thread."""
        if self._followed is not None:
            self._followed.kill_soon()

    @abstractmethod
    def _await(self, running: RunningT, timeout: float, live: LiveOutput) -> tuple[Outcome, bool]:
        """Return the outcome, and whether the time limit stopped it."""

    @abstractmethod
    def _conclude(self, running: RunningT, outcome: Outcome, *, timed_out: bool) -> ResultT: ...

    @abstractmethod
    def _new_process(self) -> ProcessT: ...

    @abstractmethod
    def _replace(self, reason: str) -> str:
        """Restart it for this reason, and return a note about that."""

    def _spawn(self) -> ProcessT:
        # A started process must be recorded here before an interrupt can strike.
        with shield():
            self._process = self._new_process()
        self._followed = self._process.terminal
        return self._process

    def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.close()

    def _ready(self) -> tuple[ProcessT, list[str]]:
        """Return a process that waits for a request, and notes about what that took."""
        notes = []
        process = self._process
        if process is not None and process.has_answered and not process.alive:
            notes.append(self._replace(f"the {self._NAME} ended (status {process.exit_code()})"))
        if self._process is not None and not self._process.reachable:
            notes.append(self._replace(f"the {self._NAME} had lost its files"))
        try:
            process = self._awaited(lambda: self._process or self._spawn(), self._drop)
            return process, [*notes, *self._open_ports(process.terminal, process.leader)]
        except OSError:
            self._drop()
            raise

    def _awaited(self, start: Callable[[], ProcessT], drop: Callable[[], None]) -> ProcessT:
        """Return a process that has answered, dropping those that end before. Raises NotStarted
        after some of these."""
        for left in reversed(range(_STARTS)):
            process = start()
            try:
                if not process.has_answered:
                    process.await_ready(self._capture())
                break
            except NotStarted:
                if not left:
                    raise
                drop()
        return process

    def _follow(self, running: RunningT, timeout: float, on_output: OnOutput) -> ResultT:
        self._followed = running.request.terminal
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
            outcome = running.process.stop(running.request)
        except BaseException:
            running.request.terminal.kill()
            raise
        finally:
            self.last_result = self._conclude(running, outcome, timed_out=False)

    def _late_output(self, running: RunningT) -> str:
        """Return what was written between the previous request and this one."""
        return clean(running.request.take_before()) if running.request.begun else ""

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


@dataclass(frozen=True)
class CommandResult:
    output: str
    """Clean text for the model; a long one is cut in the middle, at line boundaries."""
    exit_code: int | None
    """None: still running, in the background or waiting for input; or `exit_unknown`."""
    cwd: str
    """The folder after the command."""
    duration_s: float
    pid: int | None
    folder_fault: str = ""
    """What is wrong with that folder."""
    timed_out: bool = False
    waiting_for_input: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    """Set when truncated or in the background: a file of the raw bytes, 50 MB at most."""
    job_id: str | None = None
    exit_unknown: bool = False
    """A job has ended without leaving an exit code."""
    notes: tuple[str, ...] = ()
    exports: Mapping[str, str | None] = field(default_factory=dict)
    """Exported variables that changed since the last result (None: unset), as far as they may be
    stored: see `variables.storable`."""
    exports_layer: str = ""
    """The sandbox layer in which they were set."""
