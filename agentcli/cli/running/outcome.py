"""The outcome of a run from the command line, summed up and reported once in the requested form."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from agentcli import interrupts
from agentcli.agent.ending import Ending, TurnResult
from agentcli.app.attachments import named_before
from agentcli.app.containment import TMP_FOLDER
from agentcli.app.undo import files_changed
from agentcli.cli.error_reporting import internal_error, print_error
from agentcli.cli.flags import Flags
from agentcli.cli.user_paths import write_to_named
from agentcli.errors import (
    AgentError,
    OutputError,
    SessionError,
    TurnInterrupted,
    UsageError,
    internal_errors,
    os_error_text,
)
from agentcli.events.conversation import newest
from agentcli.events.observations import SessionStartedObservation
from agentcli.evidence import Evidence
from agentcli.evidence.deferred import DeferredEvidence
from agentcli.sandbox.selection import BUBBLEWRAP
from agentcli.sessions.history import SessionTotals
from agentcli.sessions.inbox import left_in_tmp
from agentcli.sessions.session import NoSecrets, SessionLog, Subscriber
from agentcli.sessions.state import AgentState
from agentcli.settings import UISettings
from agentcli.system.programs import user_environ
from agentcli.ui.jsonl import JsonLinesWriter
from agentcli.ui.notifier import DelayedFollower, NotifierSettings, TerminalNotifier
from agentcli.ui.renderer import TerminalRenderer
from agentcli.ui.summary import RunSummary
from agentcli.ui.text import printable
from agentcli.workspace.scope import TMP


def interruption_result(interrupt: TurnInterrupted) -> TurnResult:
    """Return how a turn ended that was asked to stop."""
    return TurnResult(
        Ending(AgentState.PAUSED, interrupt.reason, exit_code=interrupt.exit_code), answer=""
    )


def failure_result(error: AgentError | OSError) -> TurnResult:
    """Return how a turn ended that could not go on."""
    if isinstance(error, OSError):
        error = SessionError(os_error_text(error))
    ending = Ending(AgentState.ERROR, "", error.message, error.exit_code, error.hint)
    return TurnResult(ending, answer="")


def summarise_run(
    session: SessionLog | None,
    done: SessionTotals,
    evidence: Evidence,
    result: TurnResult,
    *,
    duration_s: float,
    lost: str = "",
) -> RunSummary:
    """Return the summary of work that ended with `result`. `lost` is why the answer did not get
    through."""
    ending = result.ending
    redact: Callable[[str], str] = session.redact if session is not None else NoSecrets()
    changed, tmp = done.files_changed, Path()
    tmp_files: tuple[str, ...] = ()
    if session is not None:
        tmp = session.folder / TMP_FOLDER
        changed = files_changed(session.folder, session.state.workspace, done)
        tmp_files = _tmp_files(session, tmp, time.time() - duration_s)
    # A session that never got its task is gone, so it can't be continued.
    session_id = session.id if session is not None and session.state.title else ""
    return RunSummary(
        status=ending.agent_state,
        session_id=session_id,
        exit_code=ending.exit_code,
        reason=ending.reason,
        duration_s=duration_s,
        steps=done.steps,
        usage=done.usage,
        cost_usd=done.cost_usd,
        files_changed=changed,
        evidence=evidence,
        evidence_told=evidence.status_text if _has_news(evidence, changed, done) else "",
        tmp_files=tmp_files,
        tmp_folder=str(tmp) if tmp_files else "",
        resume_command=f"agent resume {session_id}" if session_id else "",
        answer=result.answer,
        error=redact((ending.content or lost) if ending.exit_code else ""),
        hint=redact(ending.hint),
    )


def _has_news(evidence: Evidence, changed: Sequence[str], done: SessionTotals) -> bool:
    """Return whether this work changed or tested something; earlier results were shown before."""
    newest = -1 if evidence.newest is None else evidence.newest.event_id
    return bool(changed) or (done.first_id is not None and newest >= done.first_id)


def _tmp_files(session: SessionLog, folder: Path, since_s: float) -> tuple[str, ...]:
    """Return the files left in /tmp, if commands have a /tmp of their own."""
    start = newest(session.events, SessionStartedObservation)
    if start is None or start.sandbox != BUBBLEWRAP or str(TMP) in (start.writable or ()):
        return ()
    return left_in_tmp(folder, since_s, named_before(session.events))


def notifier_of(session: SessionLog, settings: UISettings) -> TerminalNotifier:
    """Return a subscriber for `session`; close it when the session is closed."""
    chosen = NotifierSettings(settings.notify, settings.notify_after_s, settings.title)
    label = session.state.name or session.state.title
    return TerminalNotifier(sys.stderr, chosen, user_environ(), label=label)


class OutcomeReporter:
    """Reports the outcome of a run exactly once, in the form that the flags ask for."""

    def __init__(self, flags: Flags) -> None:
        self._flags = flags
        self._started = time.monotonic()
        self._counter = SessionTotals()
        self._evidence = DeferredEvidence()
        self._exit_code: int | None = None
        self._is_working = False
        self._unheard: BrokenPipeError | OutputError | None = None
        self.session: SessionLog | None = None
        self.renderer = TerminalRenderer(
            sys.stderr,
            quiet=flags.quiet,
            verbose=int(flags.verbose),
            show_text=sys.stderr.isatty() and not is_pipe(sys.stdout),
            sums_up=True,
        )
        self._json: JsonLinesWriter | None = None
        self._delayed: DelayedFollower | None = None
        self._notifies: UISettings | None = None
        self._notifier: TerminalNotifier | None = None

    def subscribers(self, session: SessionLog) -> list[Subscriber]:
        self.session = session
        self._evidence = DeferredEvidence(session.events)
        self.renderer.expect(session.pending_actions())
        self._json = self._writer(session.id)
        told: list[Subscriber] = [self.renderer, self._json] if self._json else [self.renderer]
        if not session.events:
            self._delayed, *others = [DelayedFollower(each) for each in told]
            told = [self._delayed, *others]
        if self._notifies is not None:
            self._notifier = notifier_of(session, self._notifies)
            told.append(self._notifier)
        return [*told, self._counter, self._evidence]

    def count_time(self) -> None:
        """Start counting the time now: choosing a session or trusting a folder is not work."""
        self._started = time.monotonic()

    def notify_by(self, settings: UISettings) -> None:
        """Notify a user who looks elsewhere about the session, as `settings` say, unless the run
        is quiet."""
        self._notifies = None if self._flags.quiet else settings

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self._notifier is not None:
            self._notifier.close()
        with suppress(OSError):
            self.renderer.close()

    @property
    def exit_code(self) -> int:
        """The exit code of the outcome, once it is reported."""
        return self._exit_code or 0

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Report a failure of the block, whatever it is, as the outcome."""
        try:
            # Even a bug ends the run like any failure: the session is named, and what there is is
            # shown.
            with internal_errors(internal_error, OSError):
                yield
        except (AgentError, OSError) as error:
            self.finish(failure_result(error), has_answer=False)
        except TurnInterrupted as interrupt:
            self.finish(interruption_result(interrupt))

    def finish(self, result: TurnResult, *, has_answer: bool = True) -> int:
        """Write the answer, if there is one, and the closing line, once. Returns the exit code."""
        if self._exit_code is not None:
            return self._exit_code
        interrupts.mark_outcome_decided()
        self._is_working = False
        summary = summarise_run(
            self.session,
            self._counter,
            self._evidence.evidence,
            result,
            duration_s=time.monotonic() - self._started,
            lost=str(self._unheard) if isinstance(self._unheard, OutputError) else "",
        )
        return self.finish_as(summary, has_answer=has_answer)

    def finish_as(self, summary: RunSummary, *, has_answer: bool = True) -> int:
        """Like `finish`, for work that was more than one turn of one session."""
        if self._exit_code is None:
            interrupts.mark_outcome_decided()
            if has_answer and self._flags.answer_file is not None:
                summary = _with_answer_written(summary, self._flags.answer_file)
            self._exit_code = self._tell(summary)
        return self._exit_code

    def _tell(self, summary: RunSummary) -> int:
        gone = not summary.session_id
        if gone and self._delayed is not None:
            with suppress(OSError):
                self._delayed.give_up()
                self.renderer.close()
        if gone and summary.error:
            print_error(summary.error, summary.hint)
        else:
            # Even if nobody reads stderr, somebody may read the answer on stdout.
            with suppress(OSError):
                self.renderer.closing_line(summary)
        if self.session is None:
            self.json_writer(summary.session_id)
        writer = self._writer("") if gone and self.session else self._json
        if writer is not None:
            writer.write_result(summary)
        elif summary.answer and not self._answer_is_on_screen():
            answer = printable(summary.answer) if sys.stdout.isatty() else summary.answer
            try:
                print(answer, flush=True)
            except (BrokenPipeError, OutputError) as failure:
                self._unheard = failure
        return summary.exit_code or self._tell_unheard()

    def json_writer(self, session_id: str = "") -> JsonLinesWriter | None:
        """Return the writer for work that is not one session's, which attributes lines to
        `session_id` from now on; None if the output is for people."""
        self._json = self._json or self._writer(session_id)
        if self._json is not None:
            self._json.session_id = session_id
        return self._json

    def _writer(self, session_id: str) -> JsonLinesWriter | None:
        if self._flags.format == "text":
            return None
        return JsonLinesWriter(
            sys.stdout,
            session_id,
            result_only=self._flags.format == "json",
            on_failure=self._take_failure,
        )

    def begin(self) -> None:
        """Note that the task is recorded, so that the work can be interrupted and resumed from now
        on. Raises TurnInterrupted if stdout has failed before."""
        self._is_working = True
        if self._unheard is not None:
            self._stop(self._unheard)

    def _take_failure(self, failure: BrokenPipeError | OutputError) -> None:
        """Stop the work: nothing more reaches whoever reads stdout."""
        self._unheard = failure
        if self._is_working:
            self._stop(failure)

    def _stop(self, failure: BrokenPipeError | OutputError) -> None:
        lost = isinstance(failure, OutputError)
        told = "stdout can't be written" if lost else "stdout was closed"
        interrupts.interrupt(TurnInterrupted(told, _code_of(failure)))

    def _tell_unheard(self) -> int:
        """Report an answer that did not get through; return the exit code for that."""
        if isinstance(self._unheard, OutputError):
            session = self.session
            kept = f"it is kept: agent sessions show {session.id}" if session else ""
            print_error(str(self._unheard), kept)
        return _code_of(self._unheard)

    def _answer_is_on_screen(self) -> bool:
        return sys.stdout.isatty() and sys.stderr.isatty() and not self._flags.quiet


def _code_of(failure: BrokenPipeError | OutputError | None) -> int:
    if failure is None:
        return 0
    return failure.exit_code if isinstance(failure, OutputError) else 141


def is_pipe(stream: TextIO) -> bool:
    """Return whether a program reads `stream`; it may show the answer on the same screen."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _with_answer_written(summary: RunSummary, path: Path) -> RunSummary:
    """Write the answer to `path`; return the summary, with an error if that failed."""
    try:
        write_to_named(path, summary.answer + "\n" if summary.answer else "")
    except UsageError as error:
        problem = SessionError(f"the answer is not written: {error.message}")
    except OSError as error:
        problem = SessionError(f"{path} can't be written: {error.strerror}")
    else:
        return summary
    code = summary.exit_code or problem.exit_code
    return replace(summary, status="error", error=problem.message, hint="", exit_code=code)
