"""One turn of work from the command line: from options to exit code."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from agentcli import interrupts
from agentcli.agent.ending import Ending, TurnResult
from agentcli.agent.loop import run_turn
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.config import parse_assignment
from agentcli.app.open_session import OpenSession
from agentcli.app.trust import Loaded, load_with_trust
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.cli.complaints import complain, internal_error
from agentcli.cli.session_common import tidy
from agentcli.cli.trust import ask_trust
from agentcli.errors import AgentError, OutputError, SessionError, TurnInterrupted
from agentcli.events import Action
from agentcli.events.progress import Notice
from agentcli.files.names import is_generated
from agentcli.sessions.search.session_facts import Facts, FactsCounter
from agentcli.sessions.session import Session, Subscriber
from agentcli.sessions.state import AgentState
from agentcli.sessions.stream_redactor import NoSecrets
from agentcli.system.programs import person_environ
from agentcli.ui.approver import TerminalApprover
from agentcli.ui.held_back import HeldBack
from agentcli.ui.jsonl import JsonLinesWriter
from agentcli.ui.sanitize import printable
from agentcli.ui.summary import RunSummary
from agentcli.ui.terminal import TerminalRenderer

OutputFormat = Literal["text", "json", "stream-json"]


_OBJECTS_OF_STEPS = 700
"""After so many new ones Python looks for cycles among the young: as often as Python 3.11 does by
itself, whatever the start has set."""
_kept_to_the_end: list[object] = []
"""Taking a long session's events apart would take longer than all else at the end of a run; the
process ends with them in place."""


@dataclass(frozen=True)
class Options:
    """What the flags of `run` and `resume` say; `overrides` are settings by dotted key."""

    folder: str | None = None
    output_format: OutputFormat = "text"
    answer_file: Path | None = None
    quiet: bool = False
    verbose: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    assignments: Sequence[str] = ()

    def load(self, workspace: Path, *, asks: bool) -> Loaded:
        """With a person to ask (`asks`), whether what the folder brings along is trusted."""
        assigned = dict(parse_assignment(text) for text in self.assignments)
        given = {key: value for key, value in self.overrides.items() if value is not None}
        ask = ask_trust if asks else None
        return load_with_trust(person_environ(), workspace, {**assigned, **given}, ask)


class Outcome:
    """Tells how things went, in the form that was asked for, exactly once."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._started = time.monotonic()
        self._counter = FactsCounter()
        self._exit_code: int | None = None
        self._is_working = False
        self._unheard: BrokenPipeError | OutputError | None = None
        self.session: Session | None = None
        self.renderer = TerminalRenderer(
            sys.stderr, quiet=options.quiet, verbose=int(options.verbose)
        )
        self._json: JsonLinesWriter | None = None
        self._held_back: HeldBack | None = None

    def subscribers(self, session: Session) -> list[Subscriber]:
        self.session = session
        self.renderer.expect(session.pending_actions())
        self._json = self._writer(session.id)
        told: list[Subscriber] = [self.renderer, self._json] if self._json else [self.renderer]
        if not session.events:
            self._held_back, *others = [HeldBack(each) for each in told]
            told = [self._held_back, *others]
        return [*told, self._counter]

    def finish(self, result: TurnResult | None, error: AgentError | None = None) -> int:
        """Write the answer and the closing line, once. Returns the exit code."""
        if self._exit_code is None:
            interrupts.end()
            self._is_working = False
            self._exit_code = self._tell(result, error)
        return self._exit_code

    def _tell(self, result: TurnResult | None, error: AgentError | None) -> int:
        summary = self._summary(result, error)
        if self._options.answer_file is not None and result is not None:
            try:
                _write_answer(self._options.answer_file, summary.answer)
            except SessionError as problem:
                summary = self._summary(result, problem)
        gone = not summary.session_id
        if gone and self._held_back is not None:
            with suppress(OSError):
                self._held_back.give_up()
                self.renderer.close()
        if gone and summary.error:
            complain(summary.error, summary.hint)
        else:
            # Without a reader of stderr the answer still has one.
            with suppress(OSError):
                self.renderer.closing_line(summary)
        writer = self._writer("") if gone else self._json
        if writer is not None:
            writer.write_result(summary)
        elif summary.answer and not self._answer_is_on_screen():
            answer = printable(summary.answer) if sys.stdout.isatty() else summary.answer
            try:
                print(answer, flush=True)
            except (BrokenPipeError, OutputError) as failure:
                self._unheard = failure
        return summary.exit_code or self._tell_unheard()

    def _writer(self, session_id: str) -> JsonLinesWriter | None:
        if self._options.output_format == "text":
            return None
        return JsonLinesWriter(
            sys.stdout,
            session_id,
            result_only=self._options.output_format == "json",
            on_failure=self._take_failure,
        )

    def begin(self) -> None:
        """What is to be done is recorded: from now on it can be interrupted and resumed. Raises
        TurnInterrupted where stdout has failed before."""
        self._is_working = True
        if self._unheard is not None:
            self._stop(self._unheard)

    def _take_failure(self, failure: BrokenPipeError | OutputError) -> None:
        """Nothing more gets to whoever reads stdout: what is going on ends."""
        self._unheard = failure
        if self._is_working:
            self._stop(failure)

    def _stop(self, failure: BrokenPipeError | OutputError) -> None:
        lost = isinstance(failure, OutputError)
        told = "stdout can't be written" if lost else "stdout was closed"
        interrupts.interrupt(TurnInterrupted(told, _code_of(failure)))

    def _tell_unheard(self) -> int:
        """Of an answer that did not get through; the exit code for that."""
        if isinstance(self._unheard, OutputError):
            session = self.session
            kept = f"it is kept: agent sessions show {session.id}" if session else ""
            complain(str(self._unheard), kept)
        return _code_of(self._unheard)

    def _answer_is_on_screen(self) -> bool:
        return sys.stdout.isatty() and sys.stderr.isatty() and not self._options.quiet

    def _summary(self, result: TurnResult | None, error: AgentError | None) -> RunSummary:
        session = self.session
        ending = result.ending if result else None
        redact = session.redact if session else NoSecrets()
        failed = ending is not None and ending.exit_code != 0
        lost = str(self._unheard) if isinstance(self._unheard, OutputError) else ""
        done = self._counter.facts
        return RunSummary(
            status="error" if error else ending.agent_state if ending else "",
            session_id=session.id if session and _can_go_on(session) else "",
            exit_code=error.exit_code if error else ending.exit_code if ending else 0,
            reason=ending.reason if ending else "",
            duration_s=time.monotonic() - self._started,
            steps=done.steps,
            usage=done.usage,
            cost_usd=done.cost_usd,
            files_changed=_files_changed(session, done),
            resume_command=_resume_command(session),
            answer=result.answer if result else "",
            error=redact(
                error.message if error else (ending.content or lost) if failed and ending else ""
            ),
            hint=redact(error.hint if error else ending.hint if ending else ""),
        )


class Opening(Protocol):
    """A new session, or an old one to go on with."""

    def workspace(self, folder: str | None) -> Path:
        """The folder to work in, `folder` being what -C says."""

    def open(self, builder: AgentBuilder, outcome: Outcome) -> OpenSession:
        """The session with what the user said recorded in it."""


def work(options: Options, opening: Opening) -> int:
    """Open a session as `opening` does, let the agent work on what it says, tell the outcome."""
    outcome = Outcome(options)
    try:
        return _work(options, opening, outcome)
    except AgentError as error:
        return outcome.finish(None, error)
    except TurnInterrupted as interrupt:
        ending = Ending(AgentState.PAUSED, interrupt.reason, "", interrupt.exit_code)
        return outcome.finish(TurnResult(ending, ""))
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        return outcome.finish(None, SessionError(f"{error.strerror or error}{where}"))
    except Exception as error:
        return outcome.finish(None, internal_error(error))


def _work(options: Options, opening: Opening, outcome: Outcome) -> int:
    workspace = opening.workspace(options.folder)
    asks = TerminalApprover().available()
    loaded = options.load(workspace, asks=asks)
    settings = loaded.settings.values

    def ask_person(
        grant_text: Callable[[Action], str], current_text: Callable[[str], str | None]
    ) -> TerminalApprover:
        return TerminalApprover(
            before_asking=outcome.renderer.pause,
            grant_text=grant_text,
            current_text=current_text,
            timeout_s=settings.agent.approval_timeout_s,
        )

    builder = AgentBuilder(
        settings, person_environ(), workspace, ask_person if asks else None, loaded.brought
    )
    for notice in loaded.settings.notices:
        outcome.renderer.on_progress(Notice(notice))
    tidy()
    bench = opening.open(builder, outcome)
    _kept_to_the_end.append(bench)
    # What is loaded by now stays: no search for cycles needs to go through it again.
    gc.freeze()
    gc.set_threshold(_OBJECTS_OF_STEPS, *gc.get_threshold()[1:])
    how = "failed"
    try:
        outcome.begin()
        result = run_turn(bench.agent, bench.session)
        how = result.ending.reason
        return outcome.finish(result)
    finally:
        try:
            bench.close(how)
        finally:
            with suppress(OSError):
                outcome.renderer.close()


def _can_go_on(session: Session) -> bool:
    """A session that never got its task is gone."""
    return bool(session.state.title)


def _resume_command(session: Session | None) -> str:
    return f"agent resume {session.id}" if session and _can_go_on(session) else ""


def _files_changed(session: Session | None, done: Facts) -> tuple[str, ...]:
    """By whatever means, if the workspace was kept before and after; else by the file tools."""
    if session is None or done.trees is None:
        return done.files_changed
    kept = checkpoints_of(session.folder, session.state.workspace)
    try:
        changed = (c.path for c in kept.changes(*done.trees) if not c.told)
        return tuple(path for path in changed if not is_generated(path))
    except SessionError:
        return done.files_changed


def _code_of(failure: BrokenPipeError | OutputError | None) -> int:
    if failure is None:
        return 0
    return failure.exit_code if isinstance(failure, OutputError) else 141


def _write_answer(path: Path, answer: str) -> None:
    try:
        path.write_text(answer + "\n" if answer else "", encoding="utf-8")
    except OSError as error:
        raise SessionError(f"{path} can't be written: {error.strerror}") from error
