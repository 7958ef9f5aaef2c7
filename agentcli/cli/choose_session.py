"""A person at the terminal picks the session to go on with."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from agentcli.cli.session_common import home
from agentcli.errors import UsageError
from agentcli.sessions.search.finder import FoundSession, in_use_by, no_session, offered
from agentcli.system.programs import person_environ
from agentcli.ui.picker import Choice, pick
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import ago


def choose_session(workspace: Path | None) -> Path:
    """The session that the person picks. Raises UsageError when there is no person, nothing to
    choose from, or nothing chosen."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "which session?", hint="agent resume --last, or an id of: agent sessions list"
        )
    found = list(offered(home(), workspace))
    if not found:
        raise no_session(workspace)

    choice = pick([_choice(each, with_folder=workspace is None) for each in found])
    if choice is None:
        raise UsageError("nothing chosen")
    return home() / "sessions" / choice.session_id


def _choice(found: FoundSession, *, with_folder: bool) -> Choice:
    state = found.state
    used = datetime.fromisoformat(state.updated_at).astimezone(UTC)
    user_home = person_environ().get("HOME", "")
    folder = state.workspace
    if user_home and folder.startswith(f"{user_home}/"):
        folder = f"~{folder.removeprefix(user_home)}"
    return Choice(
        session_id=found.folder.name,
        age=ago((datetime.now(UTC) - used).total_seconds()),
        state=how_it_ended(state.agent_state, state.exit_code),
        steps=state.iteration,
        cost_usd=state.cost_usd,
        title=state.title,
        name=state.name or "",
        folder=folder if with_folder else "",
        pid=in_use_by(found.folder),
    )
