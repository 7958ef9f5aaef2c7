"""One of several tries: the process that works on it and reports to the process that started it,
one JSON object per line."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from agentcli import interrupts
from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.checks.check import CheckResult
from agentcli.app.checks.requirement_spec import requirement_spec
from agentcli.app.checks.tries import Judgement, TryCopy, judge
from agentcli.app.delegation.child_run import Follower
from agentcli.app.open_session import OpenSession
from agentcli.cli.builders import redactor
from agentcli.cli.flags import Flags
from agentcli.cli.running.inputs import UserInput
from agentcli.cli.running.outcome import OutcomeReporter
from agentcli.cli.running.work import one_turn, report_failures
from agentcli.cli.tries.view import TryProgress
from agentcli.errors import AgentError, TurnInterrupted
from agentcli.events import Progress
from agentcli.events.progress import ChildProgress
from agentcli.sessions.session import Session, Subscriber
from agentcli.sessions.state import State
from agentcli.settings import RunSettings

_CHUNK = 1 << 16


@dataclass(frozen=True)
class Attempt:
    """The work of a try, in its own process: `said` is worked on in `copy`, and the result is
    judged by the settings in `judging`."""

    builder: AgentBuilder
    copy: TryCopy
    said: UserInput
    flags: Flags
    judging: RunSettings

    def run(self) -> int:
        quiet = replace(
            self.flags,
            output_format="json",
            json=False,
            quiet=True,
            verbose=False,
            no_stdin=True,
            answer_file=None,
        )
        outcome = OutcomeReporter(quiet)
        code = report_failures(outcome, lambda: one_turn(self._open(outcome), quiet, outcome))
        if outcome.session is None or not outcome.session.state.title:
            return code
        try:
            with interrupts.interruptible_after_end():
                self._judge(outcome.session, code)
        except AgentError as error:
            _tell({"type": "not_judged", "error": error.message})
        except TurnInterrupted as interrupt:
            return interrupt.exit_code
        return code

    def _open(self, outcome: OutcomeReporter) -> OpenSession:
        def subscribers(session: Session) -> Sequence[Subscriber]:
            return [*outcome.subscribers(session), Follower(session, 0, _tell_progress)]

        builder = self.builder
        required = requirement_spec(builder.settings.run, self.flags.output_schema, builder.environ)
        if self.copy.session is None:
            opened = builder.create(subscribers)
        else:
            opened = builder.reopen(
                self.copy.session,
                subscribers,
                self.flags.model,
                has_message=self.said.piped is not None,
                required=required,
            )
        self.said.record(builder, opened, required)
        return opened

    def _judge(self, session: Session, code: int) -> None:
        """Judge the try; one that did not come to its end is not checked."""
        check = self.judging.check if code == 0 else None
        limit_s = self.judging.check_timeout_s
        judged = judge(self.builder, self.copy, session.folder, check, limit_s, redactor())
        _tell({"type": "judged", **asdict(judged)})


def _tell_progress(progress: Progress) -> None:
    if isinstance(progress, ChildProgress):
        _tell({"type": "progress", **asdict(progress)})


def _tell(line: dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)


@dataclass
class Listener:
    """Used by the process that started the try: puts what the try reports into `progress`. `before`
    is the state of the conversation that it continues."""

    progress: TryProgress
    before: State
    _rest: bytes = b""

    def read(self, output: int) -> None:
        """Take over the lines that have arrived."""
        with suppress(BlockingIOError):
            while data := os.read(output, _CHUNK):
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
