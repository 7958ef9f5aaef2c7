"""The slower half of opening a conversation: settings, trust, the model, the session."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from threading import Thread

from agentcli import __version__
from agentcli.app.agent_builder import AgentBuilder, Prepared
from agentcli.app.configuration.places import resolve_workspace
from agentcli.app.configuration.store import use_configured_store
from agentcli.app.resume import workspace_of
from agentcli.app.user_commands import resources
from agentcli.cli.builders import given_settings
from agentcli.cli.conversation.control import ConversationControl
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.conversation.display import SharedRenderer
from agentcli.cli.conversation.mailbox import MENTION
from agentcli.cli.flags import Flags
from agentcli.cli.sessions.rows import kept_outputs, label
from agentcli.cli.sessions.selector import SessionSelector, clean_up_interrupted_work
from agentcli.cli.slash_command import (
    carry_out,
    help_lines,
    prompt_lines,
    read_own_commands,
    run_at_once,
    slash_commands,
)
from agentcli.cli.terminal import show_in_pager
from agentcli.cli.user_paths import tilde_path
from agentcli.cli.user_questions import asking_builder
from agentcli.errors import SetupNeeded
from agentcli.sessions.finder import offered
from agentcli.system.programs import user_environ
from agentcli.ui.outputs import FOLDED
from agentcli.ui.prompt.completion import Completer, MentionIndex, with_folders
from agentcli.ui.prompt.control import Completion, Prompt, Submission
from agentcli.ui.renderer import TerminalRenderer
from agentcli.ui.resume_summary import one_line, summarise
from agentcli.ui.screen import terminal_colors, terminal_size
from agentcli.ui.text import Span, printable
from agentcli.ui.transcript import transcript
from agentcli.workspace.walk import walk

_MOST_SESSIONS = 200


def open_conversation(
    flags: Flags,
    task: str | None,
    name: str | None,
    which: SessionSelector | None,
    control: ConversationControl,
    prompt: Prompt,
) -> int:
    """Open a conversation behind the prompt that is already shown; see `converse`."""
    renderer = SharedRenderer(
        TerminalRenderer(
            sys.stderr,
            verbose=int(flags.verbose),
            region=prompt.region,
            sums_up=True,
            folding=None if flags.verbose else replace(FOLDED, hint="Ctrl-O"),
        )
    )
    use_configured_store(given_settings(flags))
    folder = None
    if which is not None:
        with prompt.suspended():
            folder, message = which.find(flags.folder)
        task = task or message
    builder, ready = _prepare(flags, prompt, renderer, folder)
    clean_up_interrupted_work()
    if builder.settings.ui.editing == "vi":
        prompt.use_vi_keys()
    conversation = Conversation(builder, control, prompt, renderer, carry_out, name, ready)
    conversation.load_builder = partial(_builder, flags, prompt, renderer)
    # Load them before anyone types a slash.
    Thread(target=slash_commands, name="slash commands", daemon=True).start()
    control.runs_at_once = lambda text: run_at_once(conversation, text)
    completer = cache(partial(_completer, conversation))
    control.complete = lambda text: completer(conversation.builder.workspace)(text)
    control.unfold = lambda: prompt.give_way_to(lambda: _unfold(conversation))
    where = tilde_path(builder.workspace)
    conversation.print([Span(f"agent {__version__}", "bold"), Span(f" · {where} · /help", "dim")])
    for notice in read_own_commands(conversation).notices:
        conversation.tell(printable(notice))
    if folder is not None:
        conversation.open(folder, flags.model)
        session = conversation.session
        conversation.tell(one_line(summarise(session.events, session.state, [])))
    first = Submission(task, tuple(flags.images or ())) if task else None
    return conversation.run(first)


def _prepare(
    flags: Flags, prompt: Prompt, renderer: SharedRenderer, folder: Path | None
) -> tuple[AgentBuilder, Prepared]:
    """Return a builder with a model; a user without a key is asked for it. Raises ConfigError."""
    own = folder is not None and flags.folder is None
    workspace = workspace_of(folder) if own and folder else resolve_workspace(flags.folder)
    while True:
        builder = _builder(flags, prompt, renderer, workspace)
        try:
            return builder, builder.prepare()
        except SetupNeeded as missing:
            from agentcli.cli.first_setup import set_up

            with prompt.suspended():
                done = set_up(builder, missing)
            if not done:
                raise


def _builder(
    flags: Flags, prompt: Prompt, renderer: SharedRenderer, workspace: Path
) -> AgentBuilder:
    """Return a builder under the settings in force in `workspace`, which asks at the terminal."""
    return asking_builder(flags, workspace, renderer, suspended=prompt.suspended, interactive=True)


def _unfold(conversation: Conversation) -> None:
    """Show everything done in the session in a pager, starting at its end."""
    opened = conversation.opened
    if opened is None:
        return
    text = transcript(
        list(opened.session.events),
        kept_outputs(opened.session.folder),
        width=terminal_size(sys.stderr)[0],
        colors=terminal_colors(user_environ()),
    )
    if not show_in_pager(text, at_end=True):
        conversation.prompt.say("no pager found: set PAGER, or install less")


def _completer(conversation: Conversation, workspace: Path) -> Completer:
    """Return the completer of the input; it offers the paths of `workspace`."""

    def arguments(name: str, typed: str) -> list[Completion]:
        command = slash_commands().get(name)
        if command is None or command.complete is None:
            return []
        return list(command.complete(conversation, typed))

    def paths() -> Iterable[str]:
        return with_folders(e.path for e in walk(workspace) if e.is_file)

    def sessions() -> Iterable[Completion]:
        opened = conversation.opened
        found = []
        if opened is not None and opened.servers is not None:
            found += [Completion(f"{name} ", told) for name, told in resources(opened.servers)]
        with suppress(OSError):
            for each in islice(offered(conversation.builder.home, None), _MOST_SESSIONS):
                found.append(Completion(f"{MENTION}{each.folder.name} ", label(each.state)))
        return found

    return Completer(
        lambda: help_lines(conversation.own_commands) | prompt_lines(conversation),
        arguments,
        MentionIndex(paths, sessions, conversation.prompt.complete_again),
    )
