"""Take back what the last steps did to files and to git.

/undo 3 takes back the last three steps that changed something. What the agent did not change stays
as it is. If somebody else has changed the same things since, you are told, and /undo 3 --force
undoes the steps all the same. The conversation stays; /rewind takes that back too.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.app.undo import undo as undo_steps
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.undo_report import restored_lines, undo_notes
from agentcli.cli.slash_command import SlashCommand, number
from agentcli.errors import UsageError
from agentcli.ui.prompt.control import Completion
from agentcli.ui.text import Span

_FORCE = "--force"


def undo(conversation: Conversation, argument: str) -> None:
    words = argument.split()
    force = _FORCE in words
    counts = [word for word in words if word != _FORCE]
    if len(counts) > 1:
        raise UsageError("/undo takes one number", hint="such as /undo 3")
    count = number(counts[0], "/undo 3") if counts else 1
    with conversation.session_at_rest() as session:
        try:
            done = undo_steps(session, count, force=force)
        except UsageError as error:
            again = f"/undo {count} {_FORCE}"
            error.hint = f"{again} loses these changes" if _FORCE in error.hint else ""
            raise
    conversation.tell(*restored_lines(done), style="")
    conversation.print(
        *([Span(row, "dim")] for row in undo_notes(done, f"/rewind {done.kept_at} files"))
    )


def complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    last = typed.rpartition(" ")[2]
    before = typed.removesuffix(last)
    if last.startswith("-") and _FORCE.startswith(last):
        return [Completion(f"{before}{_FORCE} ", "also where somebody else changed the file since")]
    return ()


SLASH_COMMAND = SlashCommand(undo, takes="[N] [--force]", complete=complete)
