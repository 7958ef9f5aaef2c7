"""Go back to before something you said: in the conversation, the files, or both.

You choose one of your messages from a list; it returns to the input line, so that you can reword
it. Esc Esc on an empty line does the same. Nothing is lost: you are told how to come back.

/rewind 14 goes back to event 14, /rewind 14 files only in the files, /rewind 14 conversation only
in the conversation.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentcli.app.undo import rewind as rewind_session
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.choosing import Place, choose_place
from agentcli.cli.sessions.undo_report import restored_lines, undo_notes
from agentcli.cli.slash_command import SlashCommand, beginning, number
from agentcli.errors import NothingChosen, UsageError
from agentcli.ui.choices import Choice
from agentcli.ui.picker import Question, pick
from agentcli.ui.prompt.control import Completion

_EXAMPLE = "/rewind 14 files"
_BOTH = ""
_PARTS = {
    _BOTH: "conversation and files",
    "conversation": "only the conversation: the files stay as they are now",
    "files": "only the files: what was said stays",
}


def rewind(conversation: Conversation, argument: str) -> None:
    if argument:
        event, *parts = argument.split()
        part = " ".join(parts)
        if part not in _PARTS:
            raise UsageError(
                f"{part!r} is not a part to rewind: files or conversation", hint=_EXAMPLE
            )
        _go_back(conversation, number(event, _EXAMPLE), part)
        return
    with conversation.prompt.suspended():
        place, part = _choose(conversation)
    message = place.message.content if place.message is not None else ""
    if place.is_task and part != "files":
        _begin_anew(conversation, place, part)
    else:
        _go_back(conversation, place.event_id, part)
    if part != "files":
        conversation.prompt.put(message)


def _choose(conversation: Conversation) -> tuple[Place, str]:
    place = choose_place(
        list(conversation.session.events),
        Question("rewind to before which message? ", "chooses it"),
    ).value
    parts = [Choice(part, told) for part, told in _PARTS.items()]
    picked = pick(Question("rewind what? ", "goes back"), parts)
    if picked is None:
        raise NothingChosen
    return place, picked.value


def _go_back(conversation: Conversation, event: int, part: str) -> None:
    with conversation.session_at_rest() as session:
        done = rewind_session(
            session, event, files=part != "conversation", conversation=part != "files"
        )
    conversation.tell(*restored_lines(done), style="")
    way_back = f"/rewind {done.kept_at} {part}".rstrip()
    conversation.tell(*undo_notes(done, way_back))


def _begin_anew(conversation: Conversation, place: Place, part: str) -> None:
    """Go back to before the task. Nothing of a session is left there, so the next message begins a
    new one."""
    before = conversation.session.id
    if part == _BOTH:
        _go_back(conversation, place.event_id, "files")
    conversation.begin_anew()
    told = f"a new session begins with what you say next; the one before: /resume {before}"
    conversation.tell(told)


def complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    event, space, _ = typed.partition(" ")
    if not (space and event.isdecimal()):
        return ()
    return beginning(typed, {f"{event} {each}": told for each, told in _PARTS.items() if each})


SLASH_COMMAND = SlashCommand(rewind, takes="[EVENT [files|conversation]]", complete=complete)
