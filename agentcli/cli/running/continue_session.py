"""Continue a session with a message typed in the picker, or with another model."""

from __future__ import annotations

from pathlib import Path

from agentcli.cli.flags import Flags
from agentcli.cli.running.stored_session import StoredSession
from agentcli.cli.running.work import work
from agentcli.cli.sessions.selector import SessionSelector


def continue_session(folder: Path, message: str | None, model: str | None = None) -> int:
    """Let the agent, or another `model`, work on `message` in the session in `folder`, or on what
    is left to do there. Return the exit code."""
    flags = Flags(model=model)
    return work(flags, StoredSession(SessionSelector(folder.name), message, flags))
