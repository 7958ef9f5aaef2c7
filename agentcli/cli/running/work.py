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
from agentcli.app.builders import NOBODY, UserQuestions, builder_in
from agentcli.app.configuration.config import parse_assignments
from agentcli.app.configuration.store import use_configured_store
from agentcli.app.delegation.child_parent import ApproverFactory
from agentcli.app.open_session import OpenSession
from agentcli.cli.asking.folders import ask_folders
from agentcli.cli.asking.trust import ask_trust
from agentcli.cli.error_reporting import internal_error
from agentcli.cli.flags import Flags
from agentcli.cli.running.outcome import OutcomeReporter
from agentcli.cli.running.typed_ahead import TypedAhead, is_typed_at
from agentcli.cli.sessions.upkeep import clean_up_interrupted_work
from agentcli.errors import AgentError, SessionError, SetupNeeded, TurnInterrupted, os_error_text
from agentcli.events.progress import Notice
from agentcli.sessions.state import AgentState
from agentcli.settings import Settings
from agentcli.ui.approval_question import RuleOffers
from agentcli.ui.approval_terminal import can_ask
from agentcli.ui.approver import TerminalApprover
from agentcli.ui.sanitize import say_note

_OBJECTS_OF_STEPS = 700
"""Number of new objects after which Python looks for cycles among the young ones: Python 3.11's own
default, whatever was set at the start."""
_kept_to_the_end: list[object] = []
"""Objects kept until the process ends: freeing a long session's events would take longer than
everything else at the end of a run."""


class Opening(Protocol):
    """A new session, or an old one to continue."""

    def workspace(self, folder: str | None) -> Path:
        """Return the folder to work in; `folder` is the value of -C."""

    def open(self, builder: AgentBuilder, outcome: OutcomeReporter) -> OpenSession:
        """Return the session, with what the user said recorded in it."""


def work(flags: Flags, opening: Opening) -> int:
    """Open a session as `opening` does, let the agent work on it, and report the outcome."""
    outcome = OutcomeReporter(flags)
    return report_failures(outcome, lambda: _work(flags, opening, outcome))


def report_failures(outcome: OutcomeReporter, do: Callable[[], int]) -> int:
    """Return what `do` returns; if it fails in any way, report that as the outcome."""
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
        # Even a bug ends the run like any failure: the session is named, and what there is is
        # shown.
        return outcome.finish(None, internal_error(error))


def _work(flags: Flags, opening: Opening, outcome: OutcomeReporter) -> int:
    assigned = parse_assignments(flags.assignments)
    use_configured_store(assigned)
    workspace = opening.workspace(flags.folder)
    asks = can_ask()
    questions = _questions(flags, outcome) if asks else NOBODY
    builder, notices = builder_in(workspace, {**assigned, **flags.settings()}, questions)
    outcome.count_time()
    outcome.notify_by(builder.settings.ui)
    for notice in notices:
        outcome.renderer.on_progress(Notice(notice))
    clean_up_interrupted_work()
    try:
        opened = opening.open(builder, outcome)
    except SetupNeeded as missing:
        if not asks or not sys.stdin.isatty() or not _set_up(builder, missing):
            raise
        return _work(flags, opening, outcome)
    return one_turn(opened, flags, outcome)


def _questions(flags: Flags, outcome: OutcomeReporter) -> UserQuestions:
    """Return the user at the terminal."""

    def asks(settings: Settings) -> ApproverFactory:
        def make_approver(
            offers: RuleOffers, current_text: Callable[[str], str | None]
        ) -> TerminalApprover:
            return TerminalApprover(
                before_asking=outcome.renderer.pause,
                offers=offers,
                current_text=current_text,
                timeout_s=settings.agent.approval_timeout_s,
                folds=flags.quiet > 0,
            )

        return make_approver

    return UserQuestions(ask_trust, asks, ask_folders)


def one_turn(opened: OpenSession, flags: Flags, outcome: OutcomeReporter) -> int:
    """Work for one turn of the session, which is then closed; return the exit code."""
    _kept_to_the_end.append(opened)
    # Everything loaded so far stays, so no search for cycles needs to examine it again.
    gc.freeze()
    gc.set_threshold(_OBJECTS_OF_STEPS, *gc.get_threshold()[1:])
    session = Session(opened)
    typed = TypedAhead(
        opened.session, lambda text: outcome.renderer.on_progress(Notice(text)), say_note
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
    """Ask the user for what is missing to reach a model; return whether they gave it."""
    from agentcli.cli.asking.first_setup import set_up

    return set_up(builder, missing)
