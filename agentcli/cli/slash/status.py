"""Show where this conversation stands: session, model, folder, sandbox, what runs unasked.

Also shows what was used so far, what waits to be heard, and which commands run in the background.
"""

from __future__ import annotations

from collections.abc import Iterator

from agentcli import __version__
from agentcli.cli.commands.context import use_of
from agentcli.cli.conversation.conversation import Conversation
from agentcli.cli.slash_command import SlashCommand
from agentcli.cli.user_paths import tilde_path
from agentcli.events.conversation import newest
from agentcli.events.observations import SessionStartedObservation
from agentcli.sessions.session import Session
from agentcli.ui.resume_summary import how_it_ended
from agentcli.ui.summary import count, money, quantity
from agentcli.ui.text import Line, Span, printable

_COLUMN = 12


def status(conversation: Conversation, argument: str) -> None:
    facts = [*_settings(conversation)]
    if conversation.opened is not None:
        facts = [*_session(conversation.session), *facts, *_use_so_far(conversation)]
    lines: list[Line] = [
        [Span(f"{name:<{_COLUMN}}", "dim"), Span(printable(value, multiline=False))]
        for name, value in facts
    ]
    conversation.print(*lines)


def _session(session: Session) -> Iterator[tuple[str, str]]:
    state = session.state
    yield "session", f"{state.name} ({session.id})" if state.name else session.id
    yield "task", state.title


def _settings(conversation: Conversation) -> Iterator[tuple[str, str]]:
    settings = conversation.settings
    effort = f", effort {settings.model.effort}" if settings.model.effort else ""
    yield "model", f"{conversation.status.model}{effort}"
    yield "folder", tilde_path(conversation.builder.workspace)
    if conversation.opened is not None:
        yield "sandbox", _sandbox(conversation.session)
    yield "approval", settings.agent.approval
    yield "agent", __version__


def _sandbox(session: Session) -> str:
    start = newest(session.events, SessionStartedObservation)
    if start is None or start.sandbox == "none":
        return "none: commands run with all your rights"
    network = "with the network" if start.network else "no network"
    return f"{start.sandbox}, {network}"


def _use_so_far(conversation: Conversation) -> Iterator[tuple[str, str]]:
    session, state = conversation.session, conversation.session.state
    use = use_of(list(session.events), state.model, conversation.builder)
    full = f", {100 * use.used // use.window}% of the window" if use.window else ""
    yield "context", f"{quantity(use.used)} tokens{full}"
    tokens = quantity(int(state.total("prompt_tokens") + state.total("completion_tokens")))
    budget = f" of ${state.max_budget_usd:g}" if state.max_budget_usd is not None else ""
    spent = f"{money(state.cost_usd)}{budget}"
    yield "used", f"{count(state.iteration, 'step')}, {tokens} tokens, {spent}"
    working = conversation.control.is_working
    yield "now", "at work" if working else how_it_ended(state.agent_state, state.exit_code)
    if waiting := conversation.control.queued():
        yield "waiting", "; ".join(each.text for each in waiting)
    assert conversation.opened is not None
    if jobs := conversation.opened.running_jobs():
        yield "background", ", ".join(job.job_id for job in jobs)


SLASH_COMMAND = SlashCommand(status, at_once=True)
