"""Open a conversation. The prompt comes first, so that the user can type while the rest loads."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.cli.conversation.control import ConversationControl, LineInputs
from agentcli.cli.without_command import as_run, no_terminal
from agentcli.errors import UsageError
from agentcli.interrupts import before_end, shield
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ
from agentcli.ui.prompt.control import LinePrompt, Prompt
from agentcli.ui.prompt.conversation_prompt import ConversationPrompt
from agentcli.ui.prompt.input_line import Chips, SharedHistory
from agentcli.ui.screen import is_plain

if TYPE_CHECKING:
    from agentcli.cli.flags import Flags


_shown: ConversationControl | None = None
_ending = ExitStack()


def show_prompt() -> ConversationControl:
    """Show the prompt, unless it is shown already, and return its control."""
    global _shown
    if _shown is not None:
        return _shown
    _shown = control = ConversationControl()
    environ = user_environ()
    prompt: Prompt
    if is_plain(environ):
        prompt = lines = LinePrompt()
        control.inputs = LineInputs(control, lines)
    else:
        chips = Chips()
        prompt = ConversationPrompt(
            control,
            SharedHistory(
                state_home(environ) / "history", lambda line: _redact(chips.written_out(line))
            ),
            chips,
            find_image=_clipboard_image,
            on_failure=control.prompt_failed,
            tell_fault=_fault_text,
        )
    control.prompt = prompt
    _ending.enter_context(before_end(prompt.restore_terminal))
    prompt.start()
    return control


def close_prompt() -> None:
    """Remove the prompt and leave the terminal as it was before."""
    global _shown
    control, _shown = _shown, None
    if control is not None and control.prompt is not None:
        control.prompt.close()
    _ending.close()


def converse(
    flags: Flags, task: str | None, name: str | None, session: str | None, *, newest: bool
) -> int:
    """Run a conversation until the user leaves; return the exit code. It continues `session`, which
    the user chooses from a list if it is "-", or the `newest` one, else it begins a new one. Raises
    AgentError when it can't begin."""
    if why := no_terminal():
        raise UsageError(why, hint=f"for one task: {as_run(task or 'fix the failing test')}")
    control = show_prompt()
    try:
        # The user can type from here on; the rest takes most of a second to load.
        with shield():
            from agentcli.cli.conversation.opening import open_conversation
            from agentcli.cli.sessions.selector import SessionSelector

        which = None
        if session is not None or newest:
            named = None if session == "-" else session
            which = SessionSelector(named, newest=newest, can_wait=True)
        assert control.prompt is not None
        return open_conversation(flags, task, name, which, control, control.prompt)
    finally:
        close_prompt()


def _clipboard_image() -> Path | None:
    from agentcli.cli.conversation.user_programs import clipboard_image

    return clipboard_image()


def _fault_text(fault: Exception) -> str:
    from agentcli.cli.error_reporting import internal_error

    error = internal_error(fault)
    return f"{error.message}; {error.hint}"


def _redact(text: str) -> str:
    from agentcli.security.redact import Redactor, masked_values

    return Redactor(masked_values(user_environ())).text(text)
