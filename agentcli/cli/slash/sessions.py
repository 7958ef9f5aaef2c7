"""Slash commands that begin, continue, take back and leave sessions."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice

from agentcli.app.fork import fork as fork_session
from agentcli.app.resume import workspace_of
from agentcli.cli.commands.rewind import PARTS, REWIND
from agentcli.cli.commands.sessions import RENAME
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.choosing import Place, choose_message, choose_place, choose_session
from agentcli.cli.sessions.selector import Chosen
from agentcli.cli.slash_command import SlashCommand, beginning
from agentcli.cli.user_paths import tilde_path
from agentcli.errors import NothingChosen, UsageError
from agentcli.sessions import inbox
from agentcli.sessions.finder import find, free_name, offered
from agentcli.system.homes import expanded
from agentcli.ui.choices import Choice
from agentcli.ui.picker import Question, pick
from agentcli.ui.prompt.control import Completion, Submission
from agentcli.ui.resume_summary import show_summary, summarise
from agentcli.ui.text import Span, printable


def new(conversation: Conversation, argument: str) -> None:
    """Begin a new session with the next message.

    /new fix the other test sends that message at once. The session before stays as it is; /resume
    returns to it.
    """
    if conversation.opened is not None:
        before = conversation.session.id
        conversation.tell(f"to go on with the one before: /resume {before}")
    conversation.begin_anew()
    if argument:
        conversation.say(Submission(argument))
    else:
        conversation.tell("what you say next begins a new session")


_ALL = "--all"
_MOST_OFFERED = 20


def resume(conversation: Conversation, argument: str) -> None:
    """Continue another session, in place of this one.

    You choose it from a list, or name it: by its id, the beginning of its id, or its name. /resume
    --all lists the sessions of all folders; the conversation then moves to the folder that the
    session works in."""
    chosen = _choose(conversation, argument)
    now = conversation.opened
    if now is not None and now.session.folder == chosen.folder:
        raise UsageError("that is this session")
    builder = conversation.builder_for_folder(workspace_of(chosen.folder))
    conversation.open(chosen.folder, builder=builder)
    session = conversation.session
    waiting = [session.redact(message.text) for message in inbox.waiting(session.folder)]
    summary = summarise(session.events, session.state, waiting)
    show_summary(summary, sys.stderr, datetime.now(UTC), conversation.prompt.region)
    if chosen.message:
        conversation.say(Submission(chosen.message))


def _choose(conversation: Conversation, argument: str) -> Chosen:
    builder = conversation.builder
    if argument not in ("", _ALL):
        return Chosen(find(builder.home, argument))
    now = conversation.opened.session.folder if conversation.opened is not None else None
    with conversation.prompt.suspended():
        where = None if argument == _ALL else builder.workspace
        picked = choose_session(where, besides=now, can_wait=True)
    return Chosen(picked.value, picked.message)


def _complete_resume(conversation: Conversation, typed: str) -> Sequence[Completion]:
    builder = conversation.builder
    found = islice(offered(builder.home, builder.workspace), _MOST_OFFERED)
    words = {each.state.name or each.folder.name: each.state.title for each in found}
    return beginning(typed, {**words, _ALL: "choose from those of all folders"})


def rewind(conversation: Conversation, argument: str) -> None:
    """Go back to before something you said: in the conversation, the files, or both.

    You choose one of your messages from a list; it returns to the input line, so that you can
    reword it. Esc Esc on an empty line does the same. Nothing is lost: you are told how to come
    back.

    /rewind 14 goes back to event 14, /rewind 14 files only in the files, /rewind 14 conversation
    only in the conversation."""
    if argument:
        REWIND.in_conversation(conversation, argument)
        return
    with conversation.prompt.suspended():
        place, part = _choose_place(conversation)
    message = place.message.content if place.message is not None else ""
    if place.is_task and part != "files":
        _begin_anew(conversation, place, part)
    else:
        REWIND.in_conversation(conversation, f"{place.event_id} {part}")
    if part != "files":
        conversation.prompt.put(message)


def _choose_place(conversation: Conversation) -> tuple[Place, str]:
    place = choose_place(
        list(conversation.session.events),
        Question("rewind to before which message? ", "chooses it"),
    ).value
    parts = [Choice(part, told) for part, told in PARTS.items()]
    picked = pick(Question("rewind what? ", "goes back"), parts)
    if picked is None:
        raise NothingChosen
    return place, picked.value


def _begin_anew(conversation: Conversation, place: Place, part: str) -> None:
    """Go back to before the task. Nothing of a session is left there, so the next message begins a
    new one."""
    before = conversation.session.id
    if not part:
        REWIND.in_conversation(conversation, f"{place.event_id} files")
    conversation.begin_anew()
    told = f"a new session begins with what you say next; the one before: /resume {before}"
    conversation.tell(told)


def _complete_rewind(conversation: Conversation, typed: str) -> Sequence[Completion]:
    event, space, _ = typed.partition(" ")
    if not (space and event.isdecimal()):
        return ()
    return beginning(typed, {f"{event} {each}": told for each, told in PARTS.items() if each})


def fork(conversation: Conversation, argument: str) -> None:
    """Continue in a copy of this session and its files.

    You choose which of your messages to continue from, and may reword it. The files are copied to a
    new folder beside this one, or to the one you name: /fork ../other-way. This session and its
    folder stay as they are."""
    session, builder = conversation.session, conversation.builder
    target = builder.workspace / expanded(argument) if argument else None
    question = Question("fork from where? ", "forks", "forks and sends this")
    with conversation.prompt.suspended():
        picked = choose_message(list(session.events), question, with_end=True)
    original = session.id
    with conversation.working():
        done = fork_session(builder.home, session.folder, picked.value, target)
    copy = session.folder.with_name(done.session_id)
    # Its files come from this folder, so the trust decision for this folder holds for them too.
    conversation.open(copy, builder=replace(builder, workspace=done.workspace))
    where = tilde_path(done.workspace)
    conversation.print(
        *([Span(printable(note, multiline=False), "dim")] for note in done.notes),
        [Span(f"you are in the copy; its files are in {where}", "dim")],
        [Span(f"to go on with the original: /resume {original}", "dim")],
    )
    if picked.message:
        conversation.say(Submission(picked.message))


def rename(conversation: Conversation, argument: str) -> None:
    """Give this session a name, by which you can find and continue it."""
    if not argument:
        raise UsageError("which name?", hint="/rename the parser")
    if conversation.opened is None:
        conversation.name = free_name(conversation.builder.home, argument)
        conversation.tell(f"the session will be named {conversation.name}")
    else:
        RENAME.run(conversation, argument)


def quit_(conversation: Conversation, argument: str) -> None:
    """Leave; the session can be continued later."""
    conversation.control.leave()


SLASH_COMMANDS = {
    "new": SlashCommand(new, takes="[MESSAGE]"),
    "resume": SlashCommand(resume, takes="[SESSION]", complete=_complete_resume),
    "rewind": SlashCommand(rewind, REWIND.takes, complete=_complete_rewind),
    "fork": SlashCommand(fork, takes="[FOLDER]"),
    "rename": SlashCommand(rename, takes="NAME"),
    "quit": SlashCommand(quit_),
}
