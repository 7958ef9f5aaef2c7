"""One turn of work from the command line: from flags to exit code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

from agentcli import interrupts
from agentcli.agent.ending import Ending, TurnResult
from agentcli.api.session import Session
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.builders import NOBODY, Person, builder_in
from agentcli.app.child_parent import AskPerson
from agentcli.app.config import parse_assignment
from agentcli.app.configured_store import use_configured_store
from agentcli.app.open_session import OpenSession
from agentcli.cli.ask_folders import ask_folders
from agentcli.cli.ask_trust import ask_trust
from agentcli.cli.complaints import internal_error
from agentcli.cli.flags import Flags
from agentcli.cli.outcome import OutcomeReporter
from agentcli.cli.session_common import finish_interrupted_work
from agentcli.cli.stdin import tell_on_stderr
from agentcli.cli.typed_ahead import TypedAhead, is_typed_at
from agentcli.errors import AgentError, SessionError, SetupNeeded, TurnInterrupted, os_error_text
from agentcli.events.progress import Notice
from agentcli.sessions.state import AgentState
from agentcli.settings import Settings
from agentcli.ui.approval_question import RuleOffers
from agentcli.ui.approver import TerminalApprover

_OBJECTS_OF_STEPS = 700
"""After so many new ones Python looks for cycles among the young: as often as Python 3.11 does by
itself, whatever the start has set."""
_kept_to_the_end: list[object] = []
"""Taking a long session's events apart would take longer than all else at the end of a run; the
process ends with them in place."""


class Opening(Protocol):
    """A new session, or an old one to go on with."""

    def workspace(self, folder: str | None) -> Path:
        """The folder to work in, `folder` being what -C says."""

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        """The session with what the user said recorded in it."""


def work(flags: Flags, opening: Opening) -> int:
    """Open a session as `opening` does, let the agent work on what it says, tell the outcome."""
    outcome = OutcomeReporter(flags)
    return told(outcome, lambda: _work(flags, opening, outcome))


def told(outcome: OutcomeReporter, do: Callable[[], int]) -> int:
    """What `do` returns; however it fails, that is told as the outcome."""
    try:
        return do()
    except AgentError as error:
        return outcome.finish(None, error)
    except TurnInterrupted as interrupt:
        ending = Ending(AgentState.PAUSED, interrupt.reason, "", interrupt.exit_code)
        return outcome.finish(TurnResult(ending, ""))
    except OSError as error:
        return outcome.finish(None, SessionError(os_error_text(error)))
    except Exception as error:
        # A bug ends the run as every fault does: with its session named, and what there is shown.
        return outcome.finish(None, internal_error(error))


def _work(flags: Flags, opening: Opening, outcome: OutcomeReporter) -> int:
    assigned = dict(parse_assignment(text) for text in flags.assignments or ())
    use_configured_store(assigned)
    workspace = opening.workspace(flags.folder)
    asks = TerminalApprover().available()
    person = _person(flags, outcome) if asks else NOBODY
    builder, notices = builder_in(workspace, {**assigned, **flags.settings()}, person)
    outcome.count_time()
    outcome.notify_by(builder.settings.ui)
    for notice in notices:
        outcome.renderer.on_progress(Notice(notice))
    finish_interrupted_work()
    try:
        opened = opening.open(builder, outcome)
    except SetupNeeded as missing:
        if not asks or not sys.stdin.isatty() or not _set_up(builder, missing):
            raise
        return _work(flags, opening, outcome)
    return one_turn(opened, flags, outcome)


def _person(flags: Flags, outcome: OutcomeReporter) -> Person:
    """Whoever sits at the terminal."""

    def asks(settings: Settings) -> AskPerson:
        def ask_person(
            offers: RuleOffers, current_text: Callable[[str], str | None]
        ) -> TerminalApprover:
            return TerminalApprover(
                before_asking=outcome.renderer.pause,
                offers=offers,
                current_text=current_text,
                timeout_s=settings.agent.approval_timeout_s,
                folds=flags.quiet > 0,
            )

        return ask_person

    return Person(ask_trust, asks, ask_folders)


def one_turn(opened: OpenSession, flags: Flags, outcome: OutcomeReporter) -> int:
    """Of the session, which is closed at its end; the exit code."""
    _kept_to_the_end.append(opened)
    # What is loaded by now stays: no search for cycles needs to go through it again.
    gc.freeze()
    gc.set_threshold(_OBJECTS_OF_STEPS, *gc.get_threshold()[1:])
    session = Session(opened)
    typed = TypedAhead(
        opened.session, lambda text: outcome.renderer.on_progress(Notice(text)), tell_on_stderr
    )
    with ExitStack() as ending:
        ending.callback(typed.end)
        ending.callback(outcome.close)
        ending.callback(session.close)
        if not flags.no_stdin and is_typed_at():
            typed.begin()
        outcome.begin()
        with interrupts.around_stop(outcome.renderer.suspend, outcome.renderer.resume):
            result = session.work()
        return outcome.finish(result)


def _set_up(builder: AgentBuilder, missing: SetupNeeded) -> bool:
    """Whether the person, asked for it, gave what is missing to reach a model."""
    from agentcli.cli.first_setup import set_up

    return set_up(builder, missing)
