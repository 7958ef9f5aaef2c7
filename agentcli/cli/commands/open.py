"""Reach a server that a session has started, from your browser.

While this command runs and the session stays open elsewhere, the server's port in the sandbox is
reachable at 127.0.0.1, at the same port number if that is free. Ctrl-C closes it.

Examples:
  agent open 9123                     # what a session started, in your browser
"""

from __future__ import annotations

import select
import sys
from contextlib import suppress
from typing import Annotated

from agentcli.app.containment import ITS_PAGES, open_port
from agentcli.cli.options import SessionOption, argument
from agentcli.cli.sessions.selector import selected_session
from agentcli.errors import SessionError, TurnInterrupted
from agentcli.sessions.finder import in_use_by
from agentcli.system.processes import open_pidfd


def open_(
    port: Annotated[int, argument("PORT", "Of the server.", min=1, max=65_535)],
    session: SessionOption = None,
) -> None:
    folder = selected_session(option=session)
    agent = in_use_by(folder)
    if agent is None:
        raise SessionError(
            f"{folder.name} is not open anywhere, so none of its servers is running",
            hint=f"agent resume {folder.name}, and ask it to start the server",
        )
    opened = open_port(agent, port)
    if opened is None:
        print(f"http://127.0.0.1:{port}/", flush=True)
        return
    print(opened.url, flush=True)
    print(f"{ITS_PAGES}; Ctrl-C closes it", file=sys.stderr)
    with suppress(KeyboardInterrupt, TurnInterrupted):
        if (handle := open_pidfd(agent)) is not None:
            select.select([handle], [], [])  # until that process has ended
    opened.close()


COMMAND = open_
