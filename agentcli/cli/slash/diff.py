"""Show what this session has changed in files, as a patch.

With a number, shows only what one step did: /diff 1 is the last step that changed something. What
you or others changed is not included.
"""

from __future__ import annotations

from agentcli.app.undo import newest_changes
from agentcli.cli.commands.diff import patch_lines
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.undo_report import change_line
from agentcli.cli.slash_command import SlashCommand, number
from agentcli.errors import UsageError
from agentcli.ui.text import Span


def diff(conversation: Conversation, argument: str) -> None:
    step = number(argument, "/diff 2") if argument else None
    kept, span = newest_changes(conversation.session.folder, step)
    if span is None:
        told = f"there are no {step} steps that changed files" if step else "nothing was changed"
        raise UsageError(told)
    lines = patch_lines(kept.diff(*span))
    in_git = (change for change in kept.changes(*span) if change.git_description)
    lines += [[Span(change_line(change))] for change in in_git]
    conversation.print(*lines or [[Span("nothing was changed", "dim")]], whole=True)


SLASH_COMMAND = SlashCommand(diff, takes="[STEP]", at_once=True)
