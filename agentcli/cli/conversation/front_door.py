"""Opens a conversation. The prompt comes first, so that one can type while all else loads."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from agentcli.cli.conversation.clipboard import clipboard_image
from agentcli.cli.conversation.control import ConversationControl
from agentcli.cli.flags import Flags
from agentcli.cli.quoting import quoted
from agentcli.errors import UsageError
from agentcli.system.homes import state_home
from agentcli.system.programs import person_environ
from agentcli.ui.prompt.conversation_prompt import ConversationPrompt
from agentcli.ui.prompt.history import SharedHistory
from agentcli.ui.style import Colors

if TYPE_CHECKING:
    from agentcli.cli.session_selector import Chosen

_DUMB = ("", "dumb", "unknown")


def converse(
    flags: Flags, task: str | None, name: str | None, find: Callable[[], Chosen] | None
) -> int:
    """Until the person leaves; the exit code. `find` gives the session to go on with, None begins
    a new one. Raises AgentError when it can't begin."""
    environ = person_environ()
    _require_terminal(task, environ.get("TERM", ""))
    control = ConversationControl()
    colors: Colors = "mono" if environ.get("NO_COLOR") else "full"
    history = SharedHistory(state_home(environ) / "history", _redacted)
    prompt = ConversationPrompt(
        control,
        history,
        colors=colors,
        find_image=clipboard_image,
        on_failure=control.prompt_failed,
    )
    control.prompt = prompt
    prompt.start()
    try:
        # From here on the person can type; what follows takes most of a second to load.
        from agentcli.cli.conversation.opening import open_conversation

        return open_conversation(flags, task, name, find, control, prompt)
    finally:
        prompt.close()


def _require_terminal(task: str | None, term: str) -> None:
    said = f"agent run {quoted(task or 'fix the failing test')}"
    if not (os.isatty(0) and sys.stderr.isatty()):
        raise UsageError("there is no terminal to talk at", hint=f"for one task: {said}")
    if term in _DUMB:
        told = f"this terminal (TERM={term}) can't be drawn on"
        raise UsageError(told, hint=f"for one task: {said}")


def _redacted(text: str) -> str:
    from agentcli.security.redact import Redactor
    from agentcli.security.secret_variables import masked_values

    return Redactor(masked_values(person_environ())).text(text)


def finder(folder: str | None, session: str | None, *, newest: bool) -> Callable[[], Chosen]:
    """Finds the session that is meant; `session` is - to choose it from a list."""

    def find() -> Chosen:
        from agentcli.cli.session_selector import SessionSelector

        named = None if session in (None, "-") else session
        return SessionSelector(named, newest=newest).find(folder)

    return find
