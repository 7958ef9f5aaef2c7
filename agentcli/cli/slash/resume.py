"""Continue another session, in place of this one.

You choose it from a list, or name it: by its id, the beginning of its id, or its name. /resume
--all lists the sessions of all folders; the conversation then moves to the folder that the session
works in.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice

from agentcli.app.resume import workspace_of
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.choosing import choose_session
from agentcli.cli.sessions.selector import Chosen
from agentcli.cli.slash_command import SlashCommand, beginning
from agentcli.errors import UsageError
from agentcli.sessions import inbox
from agentcli.sessions.finder import find, offered
from agentcli.ui.prompt.control import Completion, Submission
from agentcli.ui.resume_summary import show_summary, summarise

_ALL = "--all"
_MOST_OFFERED = 20


def resume(conversation: Conversation, argument: str) -> None:
    chosen = _choose(conversation, argument)
    now = conversation.opened
    if now is not None and now.session.folder == chosen.folder:
        raise UsageError("that is this session")
    builder = conversation.builder_for_folder(workspace_of(chosen.folder))
    conversation.open(chosen.folder, builder=builder)
    _tell(conversation)
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


def _tell(conversation: Conversation) -> None:
    """Show how the session was left."""
    session = conversation.session
    waiting = [session.redact(message.text) for message in inbox.waiting(session.folder)]
    summary = summarise(session.events, session.state, waiting)
    show_summary(summary, sys.stderr, datetime.now(UTC), conversation.prompt.region)


def complete(conversation: Conversation, typed: str) -> Sequence[Completion]:
    builder = conversation.builder
    found = islice(offered(builder.home, builder.workspace), _MOST_OFFERED)
    words = {each.state.name or each.folder.name: each.state.title for each in found}
    return beginning(typed, {**words, _ALL: "choose from those of all folders"})


SLASH_COMMAND = SlashCommand(resume, takes="[SESSION]", complete=complete)
