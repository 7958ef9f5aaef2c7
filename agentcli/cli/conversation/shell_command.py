"""`!command`: the user runs a command in their own shell, with all their rights, and its output
goes into the conversation. `!!command` runs the same way but stays out of it."""

from __future__ import annotations

import secrets
import sys

from agentcli.cli.conversation.conversation import Conversation
from agentcli.errors import UsageError
from agentcli.shell.at_terminal import run_at_terminal
from agentcli.system.programs import user_environ
from agentcli.ui.live import terminal_size

_MOST_CHARS = 30_000


def run_shell(conversation: Conversation, line: str) -> None:
    """Run what follows `!` or `!!`. Raises UsageError when there is nothing to run."""
    private = line.startswith("!!")
    command = line.removeprefix("!!" if private else "!").strip()
    if not command:
        raise UsageError("which command?", hint="!git status")
    environ = user_environ()
    shell = [environ.get("SHELL") or "/bin/sh", "-c", command]
    folder = str(conversation.builder.workspace)
    with conversation.prompt.suspended():
        ran = run_at_terminal(shell, environ, folder, lambda: terminal_size(sys.stderr))
    if ran.unread.strip():
        # As in a shell, input typed too early is kept until the command has ended.
        conversation.prompt.put(ran.unread.strip("\n"))
    if private:
        return
    opened, said = conversation.open_session(), ran.output.strip("\n")
    if len(said) > _MOST_CHARS:
        kept = opened.session.outputs / f"typed-{secrets.token_hex(4)}.txt"
        kept.write_text(said, encoding="utf-8")
        half = _MOST_CHARS // 2
        said = f"{said[:half]}\n[… all of it is in {kept} …]\n{said[-half:]}"
    told = f"I ran this command myself:\n$ {command}\n[exit code {ran.code}]\n{said}"
    opened.say(told.rstrip())
