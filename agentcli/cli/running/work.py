"""One turn of work from the command line: from flags to exit code."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from contextlib import ExitStack

from agentcli import interrupts
from agentcli.api.session import Session
from agentcli.app.configuration.store import use_configured_store
from agentcli.app.open_session import OpenSession
from agentcli.cli.builders import given_settings
from agentcli.cli.error_reporting import internal_error
from agentcli.cli.flags import Flags
from agentcli.cli.running.inputs import Opening
from agentcli.cli.running.outcome import OutcomeReporter, failure_result, interruption_result
from agentcli.cli.running.typed_ahead import TypedAhead, is_typed_at
from agentcli.cli.sessions.selector import clean_up_interrupted_work
from agentcli.cli.user_questions import asking_builder
from agentcli.errors import (
    AgentError,
    SetupNeeded,
    TurnInterrupted,
    internal_errors,
)
from agentcli.events.progress import Notice
from agentcli.ui.text import say_note
from agentcli.ui.tty import can_ask

_OBJECTS_OF_STEPS = 700
"""Number of new objects after which Python looks for cycles among the young ones: Python 3.11's own
default, whatever was set at the start."""
_kept_to_the_end: list[object] = []
"""Objects kept until the process ends: freeing a long session's events would take longer than
everything else at the end of a run."""


def work(flags: Flags, opening: Opening) -> int:
    """Open a session as `opening` does, let the agent work on it, and report the outcome."""
    outcome = OutcomeReporter(flags)
    return report_failures(outcome, lambda: _work(flags, opening, outcome))


def report_failures(outcome: OutcomeReporter, do: Callable[[], int]) -> int:
    """Return what `do` returns; if it fails in any way, report that as the outcome."""
    try:
        # Even a bug ends the run like any failure: the session is named, and what there is is
        # shown.
        with internal_errors(internal_error, OSError):
            code = do()
    except (AgentError, OSError) as error:
        return outcome.finish(failure_result(error), has_answer=False)
    except TurnInterrupted as interrupt:
        return outcome.finish(interruption_result(interrupt))
    return code


def _work(flags: Flags, opening: Opening, outcome: OutcomeReporter) -> int:
    use_configured_store(given_settings(flags))
    workspace = opening.workspace(flags.folder)
    builder = asking_builder(flags, workspace, outcome.renderer, folds=flags.quiet)
    outcome.count_time()
    outcome.notify_by(builder.settings.ui)
    clean_up_interrupted_work()
    try:
        opened = opening.open(builder, outcome)
    except SetupNeeded as missing:
        from agentcli.cli.first_setup import set_up

        if not (can_ask() and sys.stdin.isatty() and set_up(builder, missing)):
            raise
        return _work(flags, opening, outcome)
    return one_turn(opened, flags, outcome)


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
        screen = outcome.renderer.screen
        with interrupts.around_stop(screen.suspend, screen.resume):
            result = session.work()
        return outcome.finish(result)
