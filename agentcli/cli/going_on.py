"""Going on in a session with a message that was typed where the session was chosen."""

from __future__ import annotations

from pathlib import Path

from agentcli.cli.flags import Flags
from agentcli.cli.session_selector import SessionSelector
from agentcli.cli.stored_session import StoredSession
from agentcli.cli.work import work


def go_on(folder: Path, message: str) -> int:
    """Let the agent work on `message` in the session in `folder`. The exit code of that."""
    flags = Flags()
    return work(flags, StoredSession(SessionSelector(folder.name), message, flags))
