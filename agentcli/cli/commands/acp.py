"""Let an editor drive the agent, by the Agent Client Protocol on stdin and stdout.

Editors start this command themselves; docs/editors.md has the settings for them. It needs the extra
agentcli[acp]. The editor asks you for approvals.

Examples:
  agent acp
  agent acp -m sonnet --approval plan
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated

from agentcli.agent.prompts import INIT_TASK
from agentcli.app.configuration.store import use_configured_store
from agentcli.app.configuration.trust import require_outside_session
from agentcli.cli.builders import given_settings, redactor
from agentcli.cli.commands.agents import AGENTS
from agentcli.cli.commands.compact import COMPACT
from agentcli.cli.commands.context import CONTEXT
from agentcli.cli.commands.diff import DIFF
from agentcli.cli.commands.mcp import SERVERS
from agentcli.cli.commands.notes import NOTES
from agentcli.cli.commands.rewind import REWIND
from agentcli.cli.commands.sessions import COST, RENAME
from agentcli.cli.commands.undo import UNDO
from agentcli.cli.flags import Flags, with_flags
from agentcli.cli.options import option
from agentcli.cli.sessions.selector import clean_up_interrupted_work
from agentcli.cli.user_paths import home
from agentcli.cli.user_questions import would_take_effect
from agentcli.errors import ConfigError
from agentcli.logs import log_to
from agentcli.system.programs import user_environ
from agentcli.ui.text import say_note

_LONGEST_LOG = 1_000_000
_FLAGS = ("model", "effort", "add_dir", "share_tmp", "approval", "yolo", "allow", "deny")
_LIMITS = ("no_sandbox", "max_turns", "max_budget_usd", "max_time", "no_summary", "assignments")


_COMMANDS = {
    "agents": AGENTS,
    "compact": COMPACT,
    "context": CONTEXT,
    "cost": COST,
    "diff": DIFF,
    "mcp": SERVERS,
    "memory": NOTES,
    "rename": RENAME,
    "rewind": REWIND,
    "undo": UNDO,
}
"""The commands of editors: those that act on a session or show it, and for which editors have no
place of their own, as they have for modes, models and the list of sessions."""


def acp(
    flags: Flags,
    setup: Annotated[bool, option("--setup", "Run agent setup instead; editors use this.")] = False,
) -> int:
    if setup:
        from agentcli.cli.commands.setup import setup as set_up

        return set_up()
    require_outside_session(user_environ(), "a session can't drive the agent")
    try:
        from agentcli.acp.server import serve
        from agentcli.acp.session import EditorCommand, SessionDefaults
    except ImportError as error:
        raise ConfigError(
            f"the SDK of the Agent Client Protocol can't be loaded: {error}",
            hint="install it beside agent: pip install 'agentcli[acp]'",
        ) from error
    if sys.stdin.isatty():
        say_note("waiting for an editor on stdin; Ctrl-C ends it")
    given = given_settings(flags)
    use_configured_store(given)
    clean_up_interrupted_work()
    _begin_log()
    commands = {
        name: EditorCommand(each.help.partition("\n")[0].rstrip("."), each.takes, each.in_editor)
        for name, each in _COMMANDS.items()
    }
    commands["init"] = EditorCommand(
        "Have the project described in AGENTS.md", "wish", text=INIT_TASK
    )
    return serve(SessionDefaults(given, would_take_effect, commands))


def _begin_log() -> None:
    """Log the connection; sessions have logs of their own."""
    path = home() / "acp.log"
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        with open(os.open(path, flags, 0o600), "wb") as file:
            if os.fstat(file.fileno()).st_size > _LONGEST_LOG:
                file.truncate(0)
    log_to(path, redactor(), whole=True)


COMMAND = with_flags(acp, only=(*_FLAGS, *_LIMITS))
