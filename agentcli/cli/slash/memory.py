"""Show the notes that outlive a session, on this project and on you; `edit` opens them.

`/memory edit` opens those on the project in $EDITOR, `/memory edit user` those on you. Sessions are
given the notes when they begin, so a change counts from the next session on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentcli.app.knowledge import notes_on
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.conversation.user_programs import edit
from agentcli.cli.slash_command import SlashCommand
from agentcli.cli.user_paths import tilde_path
from agentcli.errors import UsageError
from agentcli.knowledge.notes import FILES, Notes, Target
from agentcli.system.homes import user_home
from agentcli.ui.prompt.control import Completion
from agentcli.ui.summary import count
from agentcli.ui.text import Line, Span, printable

_WHOSE: dict[Target, str] = {"memory": "on this project", "user": "on you"}
_WAYS: dict[str, tuple[Target, str]] = {
    "edit": ("memory", "the notes on this project, in $EDITOR"),
    "edit user": ("user", "the notes on you, in $EDITOR"),
}


def memory(conversation: Conversation, argument: str) -> None:
    builder = conversation.builder
    notes = notes_on(builder.workspace, builder.home, user_home(builder.environ))
    if argument:
        _edit(conversation, notes, argument)
        return
    for target in FILES:
        conversation.print(*_note_lines(notes, target))
    notes.shown()
    conversation.print(*([Span(printable(notice), "yellow")] for notice in notes.notices))


def _edit(conversation: Conversation, notes: Notes, way: str) -> None:
    """Open the notes in the editor. Raises UsageError."""
    if way not in _WAYS:
        raise UsageError(f"/memory {way} is not a command", hint="/memory, /memory edit [user]")
    path = notes.path(_WAYS[way][0])
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def done(code: int) -> None:
        said = "changes apply from the next session on"
        conversation.tell(said if code == 0 else f"the editor failed ({code})")

    edit(path, conversation.prompt, done)


def _note_lines(notes: Notes, target: Target) -> Iterator[Line]:
    entries = notes.entries(target)
    size = count(len(entries), "note") if entries else "no notes"
    path = tilde_path(notes.path(target))
    yield [Span(f"{size} {_WHOSE[target]}", "bold"), Span(f"  {path}", "dim")]
    for entry in entries:
        first, *more = printable(entry).split("\n")
        yield [Span(f"- {first}")]
        yield from ([Span(f"  {row}")] for row in more)


def _complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    return [Completion(way, about) for way, (_, about) in _WAYS.items() if way.startswith(typed)]


SLASH_COMMAND = SlashCommand(memory, takes="[edit [user]]", complete=_complete, at_once=True)
