"""Makes a server started by a session's commands reachable for the user's browser."""

from __future__ import annotations

from agentcli.errors import SessionError, os_error_text
from agentcli.sandbox.loopback import OpenPort, has_own_network, listening_process

ITS_PAGES = "its pages run in your browser, which has your network"
"""Always said along with it, because commands have no network."""


def open_port(agent_pid: int, port: int) -> OpenPort | None:
    """Make what listens on `port` in a sandbox of the agent `agent_pid` reachable until that is
    closed; None if it is reachable already, as it has no network of its own. Raises SessionError if
    nothing listens there."""
    process = listening_process(agent_pid, port)
    if process is None:
        raise SessionError(
            f"nothing that the session has started listens on 127.0.0.1:{port}",
            hint="ask the agent to start the server in the background and to name its port",
        )
    if not has_own_network(process):
        return None
    try:
        return OpenPort(process, port)
    except OSError as error:
        raise SessionError(f"port {port} can't be opened: {os_error_text(error)}") from error
