"""Continue in a copy of this session and its files.

You choose which of your messages to continue from, and may reword it. The files are copied to a new
folder beside this one, or to the one you name: /fork ../other-way. This session and its folder stay
as they are.
"""

from __future__ import annotations

from dataclasses import replace

from agentcli.app.fork import fork as fork_session
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.sessions.choosing import choose_message
from agentcli.cli.slash_command import SlashCommand
from agentcli.cli.user_paths import tilde_path
from agentcli.system.homes import expanded
from agentcli.ui.picker import Question
from agentcli.ui.prompt.control import Submission
from agentcli.ui.text import Span, printable


def fork(conversation: Conversation, argument: str) -> None:
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


SLASH_COMMAND = SlashCommand(fork, takes="[FOLDER]")
