"""Copy the last answer, one of its code blocks by number, or the last command.

The text goes to the clipboard by wl-copy, xclip, xsel or pbcopy if one is installed, by tmux inside
tmux, else by the terminal itself (OSC 52), which also works over ssh.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentcli.agent.replies import last_answer
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.conversation.user_programs import copy_text
from agentcli.cli.slash_command import SlashCommand, first_line, number
from agentcli.errors import UsageError
from agentcli.events import Event
from agentcli.events.actions import CmdRunAction
from agentcli.events.conversation import newest_first
from agentcli.ui.prompt.control import Completion
from agentcli.ui.summary import count
from agentcli.ui.text import printable

_COMMAND = "command"
_EXAMPLES = "/copy, /copy 1, /copy command"
_FENCE = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[^\n`]*\n(?P<code>.*?)(?:^[ \t]*(?P=fence)[ \t]*$|\Z)",
    re.DOTALL | re.MULTILINE,
)


def copy(conversation: Conversation, argument: str) -> None:
    what, text = _text_to_copy(conversation.session.events, argument)
    by = copy_text(text, conversation.prompt)
    lines = text.count("\n") + 1
    size = count(lines, "line") if lines > 1 else count(len(text), "character")
    shown = printable(first_line(text), multiline=False)
    conversation.tell(f"copied {what} by {by} ({size}): {shown}")


def _text_to_copy(events: Sequence[Event], argument: str) -> tuple[str, str]:
    """Return the name and text of what to copy. Raises UsageError."""
    if argument == _COMMAND:
        command = _last_command(events)
        if not command:
            raise UsageError("no command ran yet")
        return "the last command", command
    answer = last_answer(events, any_turn=True).strip()
    if not answer:
        raise UsageError("there is no answer yet")
    if not argument:
        return "the last answer", answer
    blocks = code_blocks(answer)
    chosen = dict(enumerate(blocks, 1)).get(number(argument, _EXAMPLES))
    if chosen is None:
        has = count(len(blocks), "code block") if blocks else "no code block"
        raise UsageError(
            f"there is no {argument!r} to copy: the last answer has {has}",
            hint=f"such as {_EXAMPLES}",
        )
    return f"code block {argument}", chosen


def _last_command(events: Sequence[Event]) -> str:
    for event in newest_first(events):
        if isinstance(event, CmdRunAction) and not (event.is_input or event.job):
            return event.command
    return ""


def code_blocks(text: str) -> list[str]:
    """Return the fenced code blocks, without their fences."""
    return [match["code"].rstrip("\n") for match in _FENCE.finditer(text)]


def _complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    if conversation.opened is None:
        return []
    events = conversation.opened.session.events
    blocks = enumerate(code_blocks(last_answer(events, any_turn=True)), 1)
    found = [Completion(str(place), first_line(block)) for place, block in blocks]
    if command := _last_command(events):
        found.append(Completion(_COMMAND, first_line(command)))
    return [each for each in found if each.text.startswith(typed)]


SLASH_COMMAND = SlashCommand(copy, takes="[N|command]", complete=_complete, at_once=True)
