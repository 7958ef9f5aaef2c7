"""Whether the work of a turn meets its requirements, and what the model is told if it does not.

What is required, and how often it was not met, is part of the session's state, which is folded from
its events: a run that was cut off continues where it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agentcli.agent.ending import Ending
from agentcli.agent.replies import last_answer
from agentcli.app.sandbox import Containment
from agentcli.checkpoints.checkpointer import Checkpointer
from agentcli.errors import AgentError, ConfigError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction
from agentcli.events.live import newest, newest_first
from agentcli.events.progress import Status
from agentcli.events.requirements import RequirementJudgedObservation
from agentcli.sessions.session import Session
from agentcli.sessions.state import AgentState

if TYPE_CHECKING:
    from agentcli.app.checks.check import CheckResult

_REMINDERS = 1
"""How often the model gets another chance to run the tests, or to fix its answer."""
_NO_FIT = 7
_MOST_TOLD = 3


@dataclass(frozen=True)
class RequirementChecker:
    """Checks the work of a session whose commands run in `containment`. See `Requirements` in
    `agentcli.agent.agent`."""

    containment: Containment
    checkpointer: Checkpointer | None

    def apply(self, session: Session, ending: Ending) -> bool:
        return bool(session.state.required) and ending.exit_code == 0 and ending.is_over

    def judge(self, session: Session, ending: Ending) -> Ending | None:
        required = session.state.required
        if (check := required["check"]) and not _passed_already(session.events):
            if isinstance(result := self._checked(session, check), AgentError):
                told = (result.message, result.exit_code, result.hint)
                return Ending(AgentState.ERROR, "check_failed", *told)
            session.emit(result.as_event())
            if not result.passed:
                return self._again(session, check, required["retries"])
        if required["tests"] and (missing := _missing_in(session.events)):
            return _without_evidence(session, missing)
        if required["answer_schema"] is None:
            return ending
        return _with_answer(session, required["answer_schema"], ending)

    def answer(self, session: Session, ending: Ending, words: str) -> str:
        """Return the agent's words or, if a schema was required, only a document that fits it."""
        if ending.answer is not None:
            return ending.answer
        return "" if session.state.required.get("answer_schema") is not None else words

    def _checked(self, session: Session, command: str) -> CheckResult | AgentError:
        """Return the result of the check, or why it could not be run."""
        from agentcli.app.checks.check import Check

        containment, status = self.containment, Status("checking", command)
        sandbox, limit_s = containment.sandbox, containment.settings.run.check_timeout_s
        check = Check(command, sandbox, containment.environment, limit_s)
        session.notify(status)
        try:
            return check.run(
                containment.scope.workspace, session.folder, lambda output: session.notify(status)
            )
        except (UsageError, ConfigError) as error:
            return error
        finally:
            if self.checkpointer is not None:
                self.checkpointer.may_have_changed()

    def _again(self, session: Session, command: str, retries: int) -> Ending | None:
        """After a failed check: end the turn, or tell the model to go on."""
        times = session.state.unmet["check"]
        failed = newest(session.events, RequirementJudgedObservation)
        assert failed is not None
        how = f"exited with {failed.exit_code}"
        if failed.exit_code is None:
            how = f"was stopped after {failed.duration_s:.0f} s"
        if times > retries:
            often = f", {times} times in all" if times > 1 else ""
            return Ending(
                AgentState.FINISHED,
                "check_failed",
                f"the check `{command}` {how}{often}",
                exit_code=1,
                hint=f"to see its output: agent sessions show {session.id} --event {failed.id}",
            )
        left = f"{retries - times + 1} more"
        _tell(
            session,
            f"[The work is not done: the user's check `{command}` {how}. Mend what it found. It "
            f"is run again when you say that you are done, {left} times at most. It printed at its "
            f"end:]\n{failed.content or '(nothing)'}",
        )
        return None


def _passed_already(events: Sequence[Event]) -> bool:
    """Whether the check has passed and nothing was done since."""
    for event in newest_first(events):
        if isinstance(event, RequirementJudgedObservation) and event.requirement == "check":
            return event.met
        if event.tool_call_metadata is not None or event.source is Source.USER:
            return False
    return False


def _missing_in(events: Sequence[Event]) -> str:
    """Return what evidence is missing; "" if none is."""
    from agentcli.evidence.fold import evidence_of

    evidence = evidence_of(events)
    newest = evidence.newest
    of = f" (`{newest.command}`)" if newest is not None else ""
    match evidence.status:
        case "passed":
            return ""
        case "none" | "not_run":
            return "no tests were run"
        case "failed":
            failed = evidence.not_run_again[-1:] or (newest.command if newest else "",)
            return f"the last run of tests failed (`{failed[0]}`)"
        case "outdated":
            return f"files were changed after the last run of tests{of}"
    why = f": {newest.why}" if newest is not None and newest.why else ""
    return f"it can't be told whether tests passed{of}{why}"


def _without_evidence(session: Session, missing: str) -> Ending | None:
    session.emit(RequirementJudgedObservation(requirement="tests", met=False, content=missing))
    if session.state.unmet["tests"] > _REMINDERS:
        return Ending(
            AgentState.FINISHED,
            "no_evidence",
            f"there is no evidence that tests pass: {missing}",
            exit_code=1,
            hint=f"to see what was run: agent sessions show {session.id}",
        )
    _tell(
        session,
        "[The user asked for evidence: tests that pass, run after the last change of a file, so "
        f"that their own exit code tells. There is none: {missing}. Run them before you are done; "
        "if that can't be, say why.]",
    )
    return None


def _with_answer(session: Session, schema: dict[str, object], ending: Ending) -> Ending | None:
    from agentcli.app.checks.answer_schema import document_in, faults

    document = document_in(last_answer(session.events))
    found = faults(document, schema)
    told = "\n".join(found)
    session.emit(RequirementJudgedObservation(requirement="answer", met=not found, content=told))
    if not found:
        return replace(ending, answer=document.text)
    if session.state.unmet["answer"] > _REMINDERS:
        return Ending(
            AgentState.FINISHED,
            "answer_invalid",
            f"the answer does not fit the schema: {'; '.join(_few(found))}",
            exit_code=_NO_FIT,
            hint=f"to see the answer: agent sessions show {session.id}",
            answer="",
        )
    faults_listed = "\n".join(f"- {fault}" for fault in found)
    _tell(
        session,
        f"[Your answer does not fit the schema:]\n{faults_listed}\n[Give the whole of it again, as "
        "one JSON document and nothing else.]",
    )
    return None


def _few(found: Sequence[str]) -> list[str]:
    """Return the first few; all of them are in the record."""
    more = len(found) - _MOST_TOLD
    return [*found[:_MOST_TOLD], *([f"{more} more"] if more > 0 else [])]


def _tell(session: Session, text: str) -> None:
    session.emit(MessageAction(content=text, source=Source.ENVIRONMENT))
