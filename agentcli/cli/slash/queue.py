"""Show what waits to be heard or done; drop N, edit N, hold it back, release it.

What you type while the agent works waits until it is heard: at the next step (Enter), or after the
turn (Tab, and commands). `hold` keeps all of it back until `release`.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.cli.conversation.control import ContinueWork
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand, number
from agentcli.errors import UsageError
from agentcli.ui.prompt.control import Completion, Submission
from agentcli.ui.text import Line, Span, printable

_HINT = "/queue, /queue drop N, /queue edit N, /queue hold, /queue release"


def queue(conversation: Conversation, argument: str) -> None:
    match argument.split():
        case []:
            _show(conversation)
        case ["drop", place]:
            taken = _take(conversation, place)
            conversation.tell(f"dropped: {printable(taken.text, multiline=False)}")
        case ["edit", place]:
            taken = _take(conversation, place)
            conversation.prompt.put(taken.typed)
        case ["hold"]:
            held = conversation.control.waiting.hold()
            said = "waiting messages are held until /queue release" if held else "nothing waits"
            conversation.tell(said)
        case ["release"]:
            _release(conversation)
        case _:
            raise UsageError(f"/queue {argument} is not a command", hint=_HINT)


def _show(conversation: Conversation) -> None:
    control = conversation.control
    waiting = control.queued()
    lines: list[Line] = []
    for place, each in enumerate(waiting, 1):
        head, *more = printable(each.text.strip()).split("\n")
        held = [Span("held  ", "yellow")] if each.held or control.held else []
        lines.append([Span(f"{place:>3}  ", "bold"), *held, Span(head)])
        lines += [[Span(f"     {row}")] for row in more]
    conversation.print(*(lines or [[Span("nothing waits", "dim")]]))


def _take(conversation: Conversation, place: str) -> Submission:
    """Take the input at `place` out of the queue. Raises UsageError."""
    taken = conversation.control.waiting.take(number(place, "/queue drop 1") - 1)
    if taken is None:
        raise UsageError(f"no waiting message has the number {place}", hint="/queue lists it")
    return taken


def _release(conversation: Conversation) -> None:
    control = conversation.control
    before, control.held = control.held, False
    released = control.waiting.release()
    if (before or released) and not control.is_working:
        control.inputs.put(ContinueWork())
    said = "waiting messages are heard now" if before or released else "nothing is held back"
    conversation.tell(said)


def _complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    verb, space, rest = typed.partition(" ")
    if not space:
        verbs = {
            "drop ": "N: forget it",
            "edit ": "N: back into the line",
            "hold": "keep all of it back",
            "release": "have it heard as before",
        }
        return [Completion(each, verbs[each]) for each in verbs if each.startswith(verb)]
    if verb not in ("drop", "edit"):
        return []
    waiting = enumerate(conversation.control.queued(), 1)
    return [
        Completion(f"{verb} {place}", each.text)
        for place, each in waiting
        if str(place).startswith(rest)
    ]


SLASH_COMMAND = SlashCommand(
    queue, takes="[drop N|edit N|hold|release]", complete=_complete, at_once=True
)
