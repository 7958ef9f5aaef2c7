"""`agent run --tries N`: several attempts at a task side by side, each in its own process, which
reports to the process that started it: one JSON object per line.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from agentcli import interrupts
from agentcli.agent.ending import MAX_BUDGET
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.attempts import AttemptCopy, Attempts, Judgement, attempts_of, judge
from agentcli.app.check import CheckResult
from agentcli.app.child_run import Follower
from agentcli.app.configuration.store import use_configured_store
from agentcli.app.open_session import OpenSession
from agentcli.app.requirements import requirement_spec
from agentcli.checkpoints.snapshots import Change
from agentcli.cli.attempts_view import AttemptProgress, AttemptsView, best_of
from agentcli.cli.builders import given_settings, redactor
from agentcli.cli.flags import Flags
from agentcli.cli.running.outcome import OutcomeReporter
from agentcli.cli.running.stdin import UserInput, kept_on_failure
from agentcli.cli.running.work import Opening, one_turn
from agentcli.cli.sessions.selector import clean_up_interrupted_work
from agentcli.cli.terminal import working
from agentcli.cli.user_questions import asking_builder
from agentcli.errors import AgentError, TurnInterrupted, UsageError
from agentcli.events import Progress
from agentcli.events.progress import ChildProgress, Notice
from agentcli.evidence.fold import EvidenceFold
from agentcli.interrupts import shield
from agentcli.messages import Usage
from agentcli.sessions.finder import free_name
from agentcli.sessions.library import close_libraries
from agentcli.sessions.session import SessionLog, SessionRecord, Subscriber, read_session
from agentcli.sessions.state import State
from agentcli.settings import RunSettings
from agentcli.system.forks import Forked, fork
from agentcli.ui.summary import RunSummary
from agentcli.workspace.names import display_path


def _attempt(
    builder: AgentBuilder, copy: AttemptCopy, said: UserInput, flags: Flags, judging: RunSettings
) -> int:
    """Work on `said` in `copy`, in a process of its own, and judge the result by the settings in
    `judging`; return the exit code. Everything is reported to stdout, line by line."""
    quiet = replace(
        flags,
        output_format="json",
        json=False,
        quiet=True,
        verbose=False,
        no_stdin=True,
        answer_file=None,
    )
    outcome = OutcomeReporter(quiet)

    def follow(progress: Progress) -> None:
        if isinstance(progress, ChildProgress):
            _report(type="progress", **asdict(progress))

    def subscribers(session: SessionLog) -> Sequence[Subscriber]:
        return [*outcome.subscribers(session), Follower(session, 0, follow)]

    def opened() -> OpenSession:
        required = requirement_spec(builder.settings.run, flags.output_schema, builder.environ)
        if copy.session is None:
            session = builder.create(subscribers)
        else:
            has_message = said.piped is not None
            session = builder.reopen(
                copy.session, subscribers, flags.model, has_message=has_message, required=required
            )
        said.record(builder, session, required)
        return session

    with outcome.reporting(), one_turn(opened(), quiet, outcome) as at_work:
        outcome.finish(at_work.work())
    code = outcome.exit_code
    if outcome.session is None or not outcome.session.state.title:
        return code
    # One that did not come to its end is not checked.
    check = judging.check if code == 0 else None
    folder, limit_s = outcome.session.folder, judging.check_timeout_s
    try:
        with interrupts.interruptible_after_end():
            judged = judge(builder, copy, folder, check, limit_s, redactor())
            _report(type="judged", **asdict(judged))
    except AgentError as error:
        _report(type="not_judged", error=error.message)
    except TurnInterrupted as interrupt:
        return interrupt.exit_code
    return code


def _report(**line: Any) -> None:
    print(json.dumps(line), flush=True)


@dataclass
class _Listener:
    """Puts what an attempt reports to the process that started it into `progress`. `before` is the
    state of the conversation that it continues."""

    progress: AttemptProgress
    before: State
    _rest: bytes = b""

    def read(self, output: int) -> None:
        """Take over the lines that have arrived."""
        with suppress(BlockingIOError):
            while data := os.read(output, 1 << 16):
                *lines, self._rest = (self._rest + data).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))

    def end(self, exit_code: int | None) -> None:
        """Note that the process has ended."""
        progress = self.progress
        progress.is_over = True
        progress.duration_s = time.monotonic() - progress.started
        if not progress.has_result:
            progress.error = f"its process ended with {exit_code}"

    def _take(self, line: dict[str, Any]) -> None:
        progress = self.progress
        match line:
            case {"type": "progress", "cost_usd": cost}:
                progress.doing = line["doing"]
                progress.steps = line["steps"] - self.before.iteration
                before = self.before.cost_usd
                progress.cost_usd = None if None in (cost, before) else cost - before
            case {"type": "result"}:
                progress.take_result(line)
            case {"type": "judged", "check": check, **facts}:
                checked = check and CheckResult(**check)
                progress.judged = Judgement(**{**facts, "check": checked})
            case {"type": "not_judged"}:
                progress.error = line["error"]


_TICK_S = 0.1
_PATIENCE_S = 15.0
"""How long interrupted attempts may take to report what they did; their records are complete."""
_MOST_NAMED = 5


@dataclass(frozen=True)
class AttemptOptions:
    """The tries to make. `models`, if any are named, take turns; `name` is for the session of the
    best attempt."""

    count: int
    models: Sequence[str] = ()
    name: str | None = None

    def model(self, number: int) -> str:
        """Return the model of try `number`, from 1; "" if all attempts use the default one."""
        return self.models[(number - 1) % len(self.models)] if self.models else ""


def run_attempts(
    flags: Flags,
    opening: Opening,
    options: AttemptOptions,
    original: Callable[[], SessionRecord | None] = lambda: None,
) -> int:
    """Run the attempts, bring in the best and report the outcome; return the exit code. `original`
    reads the session to continue, once `opening` has found it."""
    outcome = OutcomeReporter(flags)
    with outcome.reporting():
        use_configured_store(given_settings(flags))
        workspace = opening.workspace(flags.folder)
        builder = asking_builder(flags, workspace, outcome.renderer, approves=False)
        clean_up_interrupted_work()
        if not builder.settings.run.check:
            hint = 'e.g. agent run --tries 3 --check "make test" "…"'
            raise UsageError("tries need a check to be judged by", hint=hint)
        requirement_spec(builder.settings.run, flags.output_schema, builder.environ)
        if options.name is not None:
            free_name(builder.home, options.name)
        said = opening.read(builder)
        outcome.count_time()
        with ExitStack() as stack:
            with kept_on_failure(said.piped), working("copying the workspace"):
                made = stack.enter_context(attempts_of(builder, original(), options.count))
            attempts, copies = made
            race = _Race(flags, builder, options, attempts, outcome)
            race.run(copies, said)
            outcome.finish_as(race.finish())
    return outcome.exit_code


@dataclass
class _Race:
    """Runs the attempts, and finally brings in the best."""

    flags: Flags
    builder: AgentBuilder
    options: AttemptOptions
    attempts: Attempts
    outcome: OutcomeReporter

    def __post_init__(self) -> None:
        self._started = time.monotonic()
        count = self.options.count
        self._all = [AttemptProgress(n, self.options.model(n)) for n in range(1, count + 1)]
        self._view = AttemptsView(self._all, quiet=self.flags.quiet)

    # --- at work --------------------------------------------------------------------------------

    def run(self, copies: Sequence[AttemptCopy], said: UserInput) -> None:
        """Run until all attempts have ended; an interrupt ends all of them."""
        for note in dict.fromkeys(note for copy in copies for note in copy.notes):
            self._notice(note)
        share = self.attempts.share_usd(self.options.count)
        self._side_by_side(
            [
                (each, partial(self._work, copy, said.copied(), share))
                for copy, each in zip(copies, self._all, strict=True)
            ]
        )
        self._spend_rest(copies)

    def _spend_rest(self, copies: Sequence[AttemptCopy]) -> None:
        """Give money that some attempts left over to those that ran out of theirs, unless an
        attempt is good already."""
        poor = [each for each in self._all if each.reason == MAX_BUDGET and each.session_id]
        if not poor or best_of(self._all) is not None:
            return
        if not (left := self.attempts.left_usd(self._folders())):
            return
        again = []
        for each in poor:
            each.begin_again()
            copy = replace(copies[each.number - 1], session=self._folder(each))
            again.append((each, partial(self._work, copy, UserInput(), left / len(poor))))
        self._side_by_side(again)

    def _side_by_side(self, work: Sequence[tuple[AttemptProgress, Callable[[], int]]]) -> None:
        running: dict[Forked, _Listener] = {}
        close_libraries()
        try:
            for each, body in work:
                with shield():
                    running[fork(body)] = _Listener(each, self.attempts.state)
            with interrupts.around_stop(self._view.screen.suspend, self._view.screen.resume):
                self._follow(running)
        except TurnInterrupted as interrupt:
            with shield():
                _interrupt(running, interrupt)
                self._view.screen.flush()
                self._view.table()
            raise
        finally:
            with shield():
                self._view.screen.flush()
                _kill(running)

    def _work(self, copy: AttemptCopy, said: UserInput, usd: float | None) -> int:
        """Work on one attempt, in its own process, with `usd` more to spend."""
        model = self.options.model(copy.number)
        mends = self.flags.check_retries is not None
        settings = self.attempts.settings(model, usd, copy.session, mends=mends)
        builder = replace(self.builder, settings=settings, workspace=copy.workspace)
        flags = replace(self.flags, model=model or self.flags.model)
        with interrupts.unshielded():
            return _attempt(builder, copy, said, flags, self.builder.settings.run)

    def _folder(self, each: AttemptProgress) -> Path:
        return self.builder.home / "sessions" / each.session_id

    def _folders(self) -> list[Path]:
        """Return the folders of the sessions that exist."""
        return [self._folder(each) for each in self._all if each.session_id]

    def _follow(self, running: dict[Forked, _Listener]) -> None:
        with selectors.DefaultSelector() as selector:
            for process in running:
                selector.register(process.output, selectors.EVENT_READ)
            while busy := [p for p in running if not running[p].progress.is_over]:
                selector.select(_TICK_S)
                for process in busy:
                    ended = process.poll() is not None
                    running[process].read(process.output)
                    if ended:
                        selector.unregister(process.output)
                        running[process].end(process.exit_code)
                        if (writer := self.outcome.json_writer()) is not None:
                            each = running[process].progress
                            told = f"try {each.number} has ended"
                            writer.write_notice("try", told, **each.as_dict())
                self._view.draw()

    def _notice(self, text: str) -> None:
        self.outcome.renderer.on_progress(Notice(text))
        self.outcome.renderer.pause()

    # --- the outcome ----------------------------------------------------------------------------

    def finish(self) -> RunSummary:
        """Show the table, then bring in the best attempt."""
        best = best_of(self._all)
        changed = self.attempts.changed_since() if best is not None else []
        if best is not None:
            best.is_chosen = not changed
        self._view.table()
        if best is None:
            return self._none()
        if changed:
            return self._changed_meanwhile(best, changed)
        if not best.judged.files:
            self._notice(f"try {best.number} changed nothing: the check passes as it is")
        with working("bringing in the best"):
            folder = self._folder(best)
            self.attempts.bring_in(folder, best.judged, self._folders(), self.options.name)
        evidence = EvidenceFold.of(read_session(folder).events).evidence
        return replace(
            self._summary(best),
            resume_command=f"agent resume {best.session_id}",
            files_changed=best.files_changed,
            evidence=evidence,
            evidence_told=evidence.status_text,
        )

    def _summary(self, each: AttemptProgress | None) -> RunSummary:
        """Return a summary of `each`, with the costs of all attempts."""
        costs = [one.cost_usd for one in self._all]
        return RunSummary(
            status=each.status if each else "error",
            session_id=each.session_id if each else "",
            reason=each.reason if each else "",
            answer=each.answer if each else "",
            usage=sum((one.usage for one in self._all), Usage()),
            cost_usd=None if None in costs else sum(cost or 0.0 for cost in costs),
            duration_s=time.monotonic() - self._started,
            steps=sum(one.steps for one in self._all),
            tries=tuple(one.as_dict() for one in self._all),
        )

    def _none(self) -> RunSummary:
        """Return the summary if no attempt is good. The exit code is that of the attempts if all
        failed in the same way, else 1."""
        codes = {each.exit_code for each in self._all}
        same = max(codes) if len(codes) == 1 else 1
        first = next((each for each in self._all if each.error), None)
        if first is not None and same > 1:
            return replace(self._summary(None), exit_code=same, error=first.error, hint=first.hint)
        why = f" (try {first.number}: {first.error})" if first else ""
        kept = next((each.session_id for each in self._all if each.session_id), "")
        checks = [each.judged.check for each in self._all if each.judged.check]
        if checks and all(check.is_no_command for check in checks):
            why = f"; the check can't be run: {checks[0].tail or checks[0].outcome}"
        return replace(
            self._summary(None),
            exit_code=1,
            reason="no_try_passed",
            error=f"no try passed the check; the workspace is as it was{why}",
            hint=f"what one did: agent diff {kept}; its files: agent fork {kept} --dir DIR"
            if kept
            else "",
        )

    def _changed_meanwhile(self, best: AttemptProgress, changed: Sequence[Change]) -> RunSummary:
        named = ", ".join(
            display_path(each.git_description or each.path) for each in changed[:_MOST_NAMED]
        )
        more = f" and {len(changed) - _MOST_NAMED} more" if len(changed) > _MOST_NAMED else ""
        return replace(
            self._summary(None),
            exit_code=1,
            reason="workspace_changed",
            error=f"the workspace was changed meanwhile ({named}{more}), so nothing is brought in",
            hint=f"what try {best.number} changed, the best: agent diff {best.session_id} "
            f"| git apply; its files: agent fork {best.session_id} --dir DIR",
        )


def _interrupt(running: dict[Forked, _Listener], why: TurnInterrupted) -> None:
    """Interrupt all attempts, and give each some time to report what it did."""
    number = signal.SIGTERM if why.exit_code == 143 else signal.SIGINT
    for process in running:
        process.send(number)
    until = time.monotonic() + _PATIENCE_S
    while any(process.poll() is None for process in running) and time.monotonic() < until:
        for process, listener in running.items():
            # A process that can't write to us never ends.
            listener.read(process.output)
        time.sleep(_TICK_S)
    for process, listener in running.items():
        listener.read(process.output)
        listener.end(process.poll())


def _kill(running: Iterable[Forked]) -> None:
    for process in running:
        process.send(signal.SIGKILL)
        process.reap()
        process.close()
