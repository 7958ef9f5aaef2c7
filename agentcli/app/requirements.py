"""What the user requires of a run: checked before anything starts, and judged at the end of a turn.

What is required, and how often it was not met, is part of the session's state, which is folded from
its events: a run that was cut off continues where it was.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentcli.agent.ending import Ending
from agentcli.agent.replies import last_answer
from agentcli.app.containment import Containment
from agentcli.checkpoints.checkpointer import Checkpointer
from agentcli.errors import AgentError, ConfigError, UsageError
from agentcli.events import Event, Source
from agentcli.events.actions import MessageAction
from agentcli.events.conversation import newest, newest_first
from agentcli.events.observations import RequirementJudgedObservation, RequirementsObservation
from agentcli.events.progress import Status
from agentcli.sessions.session import SessionLog
from agentcli.sessions.state import AgentState, State
from agentcli.settings import RunSettings
from agentcli.system.programs import find_on, find_program

if TYPE_CHECKING:
    from agentcli.app.check import CheckResult


_OF_BASH = frozenset(
    """! ( { [ [[ . : alias bg break builtin case cd command continue coproc declare dirs disown
    echo enable eval exec exit export false fc fg for function getopts hash if jobs kill let local
    mapfile popd printf pushd pwd read readarray readonly return select set shift shopt source test
    time times trap true type typeset ulimit umask unset until wait while""".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class RequirementSpec:
    """Requirements: `recorded` is what the session keeps, `messages` what the model is told."""

    recorded: RequirementsObservation
    messages: tuple[Event, ...] = ()

    def holds(self, state: State) -> bool:
        """Whether exactly this is required already."""
        wanted = self.recorded.model_dump(include={"tests", "check", "retries", "answer_schema"})
        return state.required == wanted


def requirement_spec(
    settings: RunSettings, schema: Path | Mapping[str, Any] | None, environ: Mapping[str, str]
) -> RequirementSpec | None:
    """Return the requirements, None if there are none. `schema` is a file or the content of one.
    Raises UsageError for a check that can't be run, and for an invalid `schema`."""
    answer_schema = _schema(schema) if schema is not None else None
    if not (settings.check or settings.require_evidence or answer_schema is not None):
        return None
    if settings.check:
        require_command(settings.check, environ)
    recorded = RequirementsObservation(
        tests=settings.require_evidence == "tests",
        check=settings.check,
        retries=settings.check_retries if settings.check else 0,
        answer_schema=answer_schema,
    )
    return RequirementSpec(recorded, () if answer_schema is None else (_told(answer_schema),))


def _schema(given: Path | Mapping[str, Any]) -> dict[str, Any]:
    from agentcli.app.answer_schema import checked_schema, load_schema

    if isinstance(given, Path):
        return load_schema(given)
    return checked_schema(dict(given), "output_schema")


def _told(schema: dict[str, Any]) -> MessageAction:
    text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return MessageAction(
        content="[The answer to this must be one JSON document that fits the JSON Schema below, "
        "with nothing before or after it: as the text of your last reply, or as the answer of "
        f"finish. A program reads it.]\n{text}",
        source=Source.ENVIRONMENT,
    )


def require_command(check: str, environ: Mapping[str, str]) -> None:
    """Raise UsageError if bash can't parse the check, or it begins with a program that does not
    exist. A program given by path may still be created."""
    if fault := _syntax_fault(check):
        raise UsageError(f"--check: bash can't parse it: {fault}")
    from agentcli.security.commands.shell_parse import parse_script

    first = next(iter(parse_script(check).commands), None)
    name = first.words[0] if first is not None and first.words else None
    if name is None or "/" in name or name in _OF_BASH or name not in check:
        return
    if find_on(name, environ.get("PATH")) is None:
        raise UsageError(
            f"--check: there is no command {name!r} here",
            hint='it takes a command for bash, as in --check "pytest -q"',
        )


def _syntax_fault(check: str) -> str:
    """Return the complaint of bash, which executes none of it; "" if it can parse the check."""
    if "\0" in check:
        return "it contains the character NUL"
    if (bash := find_program("bash")) is None:
        return ""
    # The environment is empty: BASH_ENV names a file that would be run.
    done = subprocess.run(
        [bash, "-n"], input=check.encode(errors="replace"), env={}, capture_output=True, timeout=10
    )
    said = done.stderr.decode(errors="replace").strip().split("\n")[0]
    return said.removeprefix(f"{bash}: ") if done.returncode else ""


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

    def apply(self, session: SessionLog, ending: Ending) -> bool:
        return bool(session.state.required) and ending.exit_code == 0 and ending.is_over

    def judge(self, session: SessionLog, ending: Ending) -> Ending | None:
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

    def answer(self, session: SessionLog, ending: Ending, words: str) -> str:
        """Return the agent's words or, if a schema was required, only a document that fits it."""
        if ending.answer is not None:
            return ending.answer
        return "" if session.state.required.get("answer_schema") is not None else words

    def _checked(self, session: SessionLog, command: str) -> CheckResult | AgentError:
        """Return the result of the check, or why it could not be run."""
        from agentcli.app.check import Check

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

    def _again(self, session: SessionLog, command: str, retries: int) -> Ending | None:
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


def _without_evidence(session: SessionLog, missing: str) -> Ending | None:
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


def _with_answer(session: SessionLog, schema: dict[str, object], ending: Ending) -> Ending | None:
    from agentcli.app.answer_schema import document_in, faults

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


def _tell(session: SessionLog, text: str) -> None:
    session.emit(MessageAction(content=text, source=Source.ENVIRONMENT))
