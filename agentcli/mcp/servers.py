"""The tool servers of a session, for code that does not use an event loop.

The connections live in a thread with an event loop of its own, started when a session with tool
servers is opened; it also loads the SDK. Calls come from the session's thread, one at a time.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli import interrupts
from agentcli.errors import ToolError
from agentcli.llm.connections import make_lazy
from agentcli.mcp.values import Answer, ServerFeatures, ServerPlan, one_line

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal

    from agentcli.mcp.connection import Connection

_TICK_S = 0.1
_LOADING_S = 30.0
"""Seconds for loading the SDK on a busy machine, on top of the time a server has to start."""
_END_S = 3.0
_MOST_NAMED = 5
_MOST_PROGRESS = 20
"""Most lines of progress that wait to be shown; if a server sends more, the newest are kept."""


@dataclass
class _Server:
    plan: ServerPlan
    connection: Connection | None = None
    restarted: bool = False
    left_out: str = ""
    """Why the server is no longer used."""


class ToolServers:
    """Connects to tool servers and calls their tools. `tell` gets lines for the user;
    `show_waiting` is called ten times a second while servers start. A server that has ended is
    restarted once, when it is next needed; if it ends again it is left out."""

    def __init__(
        self,
        plans: Sequence[ServerPlan],
        workspace: Path,
        tell: Callable[[str], None],
        show_waiting: Callable[[], None] = lambda: None,
    ) -> None:
        self._servers = {plan.name: _Server(plan, left_out=plan.fault) for plan in plans}
        self._workspace = workspace
        self._tell = tell
        self._show_waiting = show_waiting
        self._portal: BlockingPortal | None = None
        self._runs: list[Future[None]] = []
        self._up = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True, name="tool servers")

    def start(self) -> None:
        """Start connecting in the background."""
        self._thread.start()

    def wait(self) -> None:
        """Wait until each server has answered or timed out; `faults` then lists the failures."""
        self._wait_for(self._up, _LOADING_S)
        begun = time.monotonic()
        for server in self._servers.values():
            if not server.left_out:
                spent = time.monotonic() - begun
                self._settle(server, server.plan.start_timeout_s + _END_S - spent)

    def faults(self) -> Iterator[str]:
        """Yield a line about each server that is left out, and one about tools of another."""
        for server in self._servers.values():
            if server.left_out:
                yield f"the tool server {server.plan.name} is left out: {server.left_out}"
            elif server.connection is not None and (unfit := server.connection.features.unfit):
                named = [f"{one_line(name)} ({why})" for name, why in unfit[:_MOST_NAMED]]
                named += [f"{len(unfit) - _MOST_NAMED} more"] * (len(unfit) > _MOST_NAMED)
                listed = ", ".join(named)
                yield f"of the tools of the server {server.plan.name}, these are left out: {listed}"

    def has(self, name: str) -> bool:
        return name in self._servers

    def features(self) -> Iterator[tuple[ServerPlan, ServerFeatures]]:
        """Yield the servers in use with what they offer."""
        for server in self._servers.values():
            if server.connection is not None and not server.left_out:
                yield server.plan, server.connection.features

    def states(self) -> Iterator[tuple[ServerPlan, str, ServerFeatures | None]]:
        """Yield each server with its state, in a few words, and what it offers."""
        for server in self._servers.values():
            connection = server.connection
            if server.left_out:
                yield server.plan, f"left out: {server.left_out}", None
            elif connection is None or not connection.settled.is_set():
                yield server.plan, "is being started", None
            else:
                state = "ready" if connection.alive else f"ended: {connection.why_not}"
                yield server.plan, state, connection.features

    def renew(self) -> None:
        """List the tools again of servers that announced a change."""
        for server in self._servers.values():
            connection = server.connection
            if connection is not None and connection.has_changed and self._portal is not None:
                self._portal.call(connection.renew)

    def call(
        self,
        name: str,
        tool: str,
        arguments: dict[str, Any],
        on_progress: Callable[[str], None],
    ) -> Answer:
        """Call a tool. On an interrupt, the server is told to stop. Raises ToolError."""
        lines: deque[str] = deque(maxlen=_MOST_PROGRESS)

        def show() -> None:
            while lines:
                on_progress(f"{lines.popleft()}\n")

        return self._asked(
            name, lambda connection: connection.call_tool(tool, arguments, lines.append), show
        )

    def read_resource(self, name: str, uri: str) -> Answer:
        """Read a resource. Raises ToolError."""
        return self._asked(name, lambda connection: connection.read_resource(uri))

    def prompt(self, name: str, prompt: str, arguments: dict[str, str]) -> Answer:
        """Get a prompt, filled in with `arguments`. Raises ToolError."""
        return self._asked(name, lambda connection: connection.get_prompt(prompt, arguments))

    def close(self) -> None:
        """End all servers."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_END_S + 1)

    def _asked(
        self,
        name: str,
        ask: Callable[[Connection], Coroutine[Any, Any, Answer]],
        show: Callable[[], None] = lambda: None,
    ) -> Answer:
        server = self._servers.get(name)
        if server is None:
            raise ToolError(f"There is no tool server {name!r}.", error_id="server_gone")
        connection = self._living(server)
        assert self._portal is not None
        future: Future[Answer] = self._portal.start_task_soon(ask, connection)
        try:
            while not future.done():
                interrupts.check()
                wait([future], _TICK_S)
                show()
            show()
            return future.result()
        except ToolError as error:
            if error.error_id == "server_died" and server.restarted:
                self._leave_out(server, connection.why_not)
                message = f"{error.message} It is left out from now on."
                raise ToolError(message, error_id=error.error_id) from error
            raise
        finally:
            # On an interrupt this cancels the request and tells the server so.
            future.cancel()

    def _living(self, server: _Server) -> Connection:
        """Return a live connection; restart a server that has ended, once. Raises ToolError."""
        name = server.plan.name
        if not server.left_out:
            self._settle(server, server.plan.start_timeout_s + _LOADING_S)
        connection = server.connection
        if connection is not None and not server.left_out and not connection.alive:
            if server.restarted:
                self._leave_out(server, connection.why_not)
            else:
                self._restart(server, connection.why_not)
            connection = server.connection
        if server.left_out or connection is None:
            why = f"The tool server {name} is left out: {server.left_out}. Do without its tools."
            raise ToolError(why, error_id="server_gone")
        return connection

    def _restart(self, server: _Server, why: str) -> None:
        assert self._portal is not None
        server.restarted = True
        self._tell(f"the tool server {server.plan.name} is being restarted: {why}")
        server.connection = None
        self._begin(server, self._portal)
        self._settle(server, server.plan.start_timeout_s + _END_S)
        if server.left_out:
            self._leave_out(server, server.left_out)

    def _leave_out(self, server: _Server, why: str) -> None:
        server.left_out = why
        self._tell(f"the tool server {server.plan.name} is left out: {why}")

    def _settle(self, server: _Server, seconds: float) -> None:
        """Wait until the server has answered; if it fails or does not answer, leave it out."""
        connection = server.connection
        if connection is None or not self._wait_for(connection.settled, seconds):
            server.left_out = "it did not start in time"
        elif not connection.alive and not connection.was_ready:
            server.left_out = connection.why_not

    def _wait_for(self, event: threading.Event, seconds: float) -> bool:
        """Wait for `event`, and return whether it was set in time."""
        end = time.monotonic() + seconds
        while not event.wait(min(_TICK_S, max(end - time.monotonic(), 0))):
            if time.monotonic() >= end:
                return False
            interrupts.check()
            self._show_waiting()
        return True

    def _serve(self) -> None:
        """Run the event loop until `close`; this is the thread's function."""
        try:
            # The SDK's packages import servers of all kinds, none of which is needed here.
            make_lazy("mcp")
            from anyio.from_thread import start_blocking_portal

            with start_blocking_portal() as portal:
                self._portal = portal
                for server in self._servers.values():
                    if not server.left_out:
                        self._begin(server, portal)
                self._up.set()
                self._closing.wait()
                for server in self._servers.values():
                    if server.connection is not None:
                        portal.call(server.connection.stop)
                wait(self._runs, _END_S)
                portal.call(portal.stop, True)
        finally:
            self._up.set()

    def _begin(self, server: _Server, portal: BlockingPortal) -> None:
        from agentcli.mcp.connection import Connection

        connection = Connection(server.plan, self._workspace)
        self._runs.append(portal.start_task_soon(connection.run))
        server.connection = connection
