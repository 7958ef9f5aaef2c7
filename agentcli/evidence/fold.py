"""Fold evidence from a session's events, one after the other. It depends on the log alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from agentcli.events import Event, Observation
from agentcli.events.actions import CmdRunAction, RewindAction
from agentcli.events.observations import (
    FOREIGN_PREFIX,
    CheckpointObservation,
    CmdOutputObservation,
    DecisionObservation,
    DelegateObservation,
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    IPythonRunCellObservation,
    MCPObservation,
    NullObservation,
    RequirementJudgedObservation,
    SessionStartedObservation,
    ToolResultObservation,
)
from agentcli.evidence import Evidence, EvidenceStatus, Outcome, TestRun
from agentcli.evidence.runners import (
    RunnerCall,
    is_below,
    is_test_file,
    may_run,
    may_test,
    places_of,
)

if TYPE_CHECKING:
    from agentcli.evidence.scripts import ScriptTests

_MOST_RUNS = 200
_MOST_FILES = 1_000
_LONGEST_COMMAND = 200
_MOST_OF_CHILD = 10
"""The most test runs of a child that its parent records."""
_CHECK = "check"
_OUTCOMES: dict[str, Outcome] = {"passed": "passed", "failed": "failed"}
_SCRATCH = "/tmp/"
_NO_WORK = (_SCRATCH, "$AGENT_OUT/")
"""Files below these are not part of the work, unless the workspace itself lies there: then their
paths are relative to it."""


@dataclass(frozen=True)
class _Run:
    """A test run. It tested the files as they were at event `at`. `command` is None for a run of a
    child and for the user's check, whose words are not analysed."""

    shown: TestRun
    at: int
    command: RunnerCall | None
    folder: str | None


@dataclass(frozen=True)
class _Change:
    """A file changed between these two events, inclusive."""

    first: int
    last: int


@dataclass(frozen=True)
class _PossibleChange:
    """Something ran at event `at` that may have changed files: a `command`, or, without one, a tool
    that can do anything. `only_tests`: it changed nothing after its tests were over."""

    at: int
    command: str | None = None
    only_tests: bool = False

    def may_change(self) -> bool:
        """Whether it may have changed files. This parses the command, so call it only if needed."""
        if self.command is None:
            return True
        from agentcli.evidence.scripts import may_change

        return may_change(self.command)


@dataclass(frozen=True)
class _RunningCommand:
    """A command that still runs, the tests in it, and the event at which it started."""

    command: str
    tests: ScriptTests | None
    at: int
    folder: str | None


class EvidenceFold:
    """Collects evidence from events, which it must receive in order."""

    def __init__(self) -> None:
        self._workspace = ""
        self._folder: str | None = None
        self._asked: dict[int, CmdRunAction] = {}
        self._jobs: dict[str, _RunningCommand] = {}
        self._waiting: _RunningCommand | None = None
        self._runs: list[_Run] = []
        self._changes: dict[str, _Change] = {}
        """The last change of each file."""
        self._digests: dict[str, str] = {}
        self._unseen: list[_PossibleChange] = []
        """What may have changed files since the last checkpoint compared them."""
        self._explained: set[str] = set()
        """Files whose change since that checkpoint was recorded by its own event."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> EvidenceFold:
        fold = cls()
        for event in events:
            fold.on_event(event)
        return fold

    def on_event(self, event: Event) -> None:
        match event:
            case CmdRunAction():
                self._asked[event.id] = event
            case SessionStartedObservation():
                self._begin(event)
            case CheckpointObservation() | NullObservation():
                self._checkpoint(event)
            case RewindAction() if event.tree is not None:
                self._rewound(event.id)
            case RequirementJudgedObservation(requirement="check"):
                self._checked(event)
            case Observation(cause=int()) if not isinstance(event, DecisionObservation):
                self._on_result(event)

    def _on_result(self, event: Observation) -> None:
        """Take the result of an action."""
        match event:
            case CmdOutputObservation(cause=int() as cause):
                self._output(event, self._asked.pop(cause, None))
            case ErrorObservation(cause=int() as cause):
                self._cut_off(event, self._asked.pop(cause, None))
            case FileReadObservation() if event.digest:
                self._digests[self._relative(event.path)] = event.digest
            case FileEditObservation() | FileWriteObservation():
                self._edited(event)
            case DelegateObservation():
                self._delegated(event)
            case IPythonRunCellObservation() | MCPObservation() | ToolResultObservation():
                self._unseen.append(_PossibleChange(event.id))

    def _begin(self, event: SessionStartedObservation) -> None:
        """A process opens the session: commands of an earlier one are gone, their outcome
        unknown."""
        self._workspace = event.workspace.removeprefix(FOREIGN_PREFIX)
        self._folder = self._workspace
        for running in [*self._jobs.values(), *filter(None, [self._waiting])]:
            self._record(running, event.id, None, "", "it was ended with its session")
        self._jobs.clear()
        self._waiting = None

    # What changed ------------------------------------------------------------------------------

    def _edited(self, event: FileEditObservation | FileWriteObservation) -> None:
        path = self._relative(event.path)
        if self._digests.get(path) != event.digest and not path.startswith(_NO_WORK):
            self._change(path, event.id)
        self._digests[path] = event.digest
        self._explained.add(path)

    def _change(self, path: str, first: int, last: int | None = None) -> None:
        known = self._changes.get(path)
        end = first if last is None else last
        self._changes[path] = _Change(first, max(end, known.last if known else end))

    def _checkpoint(self, event: CheckpointObservation | NullObservation) -> None:
        """Attribute what differs from the previous checkpoint to what ran in between."""
        if event.changed is None:
            return
        unexplained = [path for path in event.changed if path not in self._explained]
        if unexplained:
            first, last = self._change_span(event.id)
            for path in unexplained:
                self._change(path, first, last)
        self._reset_at_checkpoint()

    def _change_span(self, event_id: int) -> tuple[int, int]:
        """Return the events between which a change seen at `event_id` happened: those of the
        commands that may have made it, the last tests if nothing else ran, or `event_id` if
        nothing ran."""
        ran = [what for what in self._unseen if what.may_change()]
        others = [what.at for what in ran if not what.only_tests]
        if others:
            return others[0], others[-1]
        return (ran[-1].at, ran[-1].at) if ran else (event_id, event_id)

    def _rewound(self, event_id: int) -> None:
        """Count every changed file as changed again: the event doesn't say which were restored."""
        for path in self._changes:
            self._change(path, event_id)
        self._reset_at_checkpoint()

    def _reset_at_checkpoint(self) -> None:
        self._unseen.clear()
        self._explained.clear()

    # What was run ------------------------------------------------------------------------------

    def _output(self, event: CmdOutputObservation, action: CmdRunAction | None) -> None:
        folder, self._folder = self._folder, event.metadata.cwd or self._folder
        if action is not None and action.job is not None:
            self._job_looked_at(event)
            return
        if action is not None and action.is_input and self._waiting is not None:
            running = self._waiting
        else:
            if self._waiting is not None:
                self._record(self._waiting, event.id, None, "", "it was stopped")
            command = action.command if action is not None else event.command
            running = self._running_command(command, event.id, folder)
        self._waiting = None
        still = event.metadata.exit_code is None and not event.metadata.exit_unknown
        if still and event.metadata.job_id is not None:
            self._jobs[event.metadata.job_id] = running
        elif still and event.metadata.waiting_for_input:
            self._waiting = running
        else:
            self._ended(running, event)

    def _running_command(self, command: str, event_id: int, folder: str | None) -> _RunningCommand:
        """Return the command that runs from this event on."""
        tests = None
        if may_test(command):
            from agentcli.evidence.scripts import tests_in

            tests = tests_in(command)
        only_tests = tests is not None and len(tests.changed_after) < len(tests.tests)
        self._unseen.append(_PossibleChange(event_id, command, only_tests))
        return _RunningCommand(command, tests, event_id, folder)

    def _job_looked_at(self, event: CmdOutputObservation) -> None:
        over = event.metadata.exit_code is not None or event.metadata.exit_unknown
        running = self._jobs.pop(event.metadata.job_id or "", None) if over else None
        if running is not None:
            self._ended(running, event)

    def _ended(self, running: _RunningCommand, event: CmdOutputObservation) -> None:
        why = "it ran out of time" if event.metadata.timed_out else ""
        self._record(running, event.id, event.metadata.exit_code, event.content, why)

    def _cut_off(self, event: ErrorObservation, action: CmdRunAction | None) -> None:
        """Take the error of a command. One that was interrupted has run, unless it never
        started."""
        if action is None or event.error_id != "interrupted":
            return
        if not event.content.startswith("Not started"):
            running = self._running_command(action.command, event.id, self._folder)
            self._record(running, event.id, None, "", "it was cut off")

    def _record(
        self, running: _RunningCommand, event_id: int, code: int | None, output: str, why: str
    ) -> None:
        if (tests := running.tests) is None:
            return
        from agentcli.evidence.scripts import outcome_of

        for number, command in enumerate(tests.tests):
            found = outcome_of(tests, number, code, output)
            if found is None or self._is_of_scratch(command, running.folder):
                continue
            outcome, reason = found
            shown = TestRun(
                event_id, _short(running.command), command.runner.name, outcome, why or reason
            )
            if outcome != "unknown":
                shown = replace(shown, why="")
            at = running.at - (number in tests.changed_after)
            self._add(_Run(shown, at, command, running.folder))

    def _is_of_scratch(self, command: RunnerCall, folder: str | None) -> bool:
        """Whether it only runs tests in /tmp, which prove nothing about the workspace."""
        places = places_of(command, folder or self._workspace)
        own = self._workspace
        return bool(places) and all(
            place.startswith(_SCRATCH) and not (is_below(place, own) or is_below(own, place))
            for place in places
        )

    def _add(self, run: _Run) -> None:
        self._runs.append(run)
        if len(self._runs) > _MOST_RUNS:
            del self._runs[0]

    def _checked(self, event: RequirementJudgedObservation) -> None:
        """Count the user's check as tests."""
        outcome: Outcome = "passed" if event.met else "failed"
        shown = TestRun(event.id, _short(event.command), _CHECK, outcome)
        self._unseen.append(_PossibleChange(event.id, only_tests=True))
        self._add(_Run(shown, event.id, None, None))

    def _delegated(self, event: DelegateObservation) -> None:
        for path in event.files_changed:
            self._change(path, event.id)
            self._explained.add(path)
        self._outside = False
        for run in event.tests:
            shown = TestRun(
                event.id,
                str(run.get("command", "")),
                str(run.get("runner", "")),
                _OUTCOMES.get(str(run.get("outcome")), "unknown"),
                session_id=event.session_id,
            )
            # Tests before the child's last change prove nothing about its files.
            at = event.id if run.get("newest") else event.id - 1
            self._add(_Run(shown, at, None, None))

    # The result --------------------------------------------------------------------------------

    @property
    def evidence(self) -> Evidence:
        changed = sorted(self._changes)
        passing = [run for run in self._runs if run.shown.outcome == "passed"]
        return Evidence(
            status=self._status(),
            tests=tuple(run.shown for run in self._runs),
            files_changed=tuple(changed[:_MOST_FILES]),
            changed_at=self._last_change() if changed else None,
            passed_at=passing[-1].shown.event_id if passing else None,
            never_run=tuple(self._never_run(changed)) if changed else (),
            not_run_again=tuple(
                dict.fromkeys(run.shown.command for run in self._standing_failures())
            ),
        )

    def _status(self) -> EvidenceStatus:
        if not self._runs:
            return "not_run" if self._changes else "none"
        newer = [run for run in self._runs if self._age(run) != "older"]
        if not newer:
            return "outdated"
        standing = set(map(id, self._standing_failures()))
        if any(id(run) in standing for run in newer):
            return "failed"
        passed = [run for run in newer if run.shown.outcome == "passed"]
        if not passed:
            return "unknown"
        sure = any(self._age(run) == "newer" and not self._unsure_since(run.at) for run in passed)
        return "passed" if sure else "unknown"

    def _unsure_since(self, at: int) -> bool:
        """Whether something may have changed files after event `at` without being compared."""
        later = (what for what in self._unseen if what.at > at and not what.only_tests)
        return any(what.may_change() for what in later)

    def _age(self, run: _Run) -> str:
        """Return "newer" for a run after every change, "older" for one before a change, "unknown"
        if the events don't tell."""
        if run.at < max((change.first for change in self._changes.values()), default=-1):
            return "older"
        return "unknown" if run.at < self._last_change() else "newer"

    def _last_change(self) -> int:
        return max((change.last for change in self._changes.values()), default=-1)

    def _standing_failures(self) -> Iterable[_Run]:
        """Yield the failed runs after which nothing that covers the same tests passed."""
        for number, run in enumerate(self._runs):
            if run.shown.outcome == "failed":
                later = self._runs[number + 1 :]
                if not any(_mends(other, run) for other in later):
                    yield run

    def _never_run(self, paths: Iterable[str]) -> Iterator[str]:
        return (path for path in paths if is_test_file(path) and self._is_never_run(path))

    def _is_never_run(self, path: str) -> bool:
        change = self._changes[path]
        return not any(
            run.at >= change.first and self._may_have_run(run, path) for run in self._runs
        )

    def _may_have_run(self, run: _Run, path: str) -> bool:
        if run.command is None or run.folder is None:
            return True
        return may_run(run.command, run.folder, str(Path(self._workspace) / path))

    def _relative(self, path: str) -> str:
        """Return a path relative to the workspace, if it lies in there."""
        if path == self._workspace:
            return "."
        inside = self._workspace and path.startswith(self._workspace + "/")
        return path[len(self._workspace) + 1 :] if inside else path.removeprefix("./")


def evidence_of(events: Iterable[Event]) -> Evidence:
    """Return the evidence in a whole log."""
    return EvidenceFold.of(events).evidence


def child_tests(evidence: Evidence, since: int = 0) -> tuple[dict[str, str | bool], ...]:
    """Return the child's test runs from event `since` on as its parent records them. `newest`: no
    file changed after the run."""
    changed = -1 if evidence.changed_at is None else evidence.changed_at
    return tuple(
        {
            "command": run.command,
            "runner": run.runner,
            "outcome": run.outcome,
            "newest": run.event_id >= changed,
        }
        for run in evidence.tests[-_MOST_OF_CHILD:]
        if run.event_id >= since
    )


def _mends(later: _Run, failed: _Run) -> bool:
    """Whether `later` passed and covers the tests of `failed`."""
    if later.shown.outcome != "passed":
        return False
    if later.shown.command == failed.shown.command and later.shown.runner == failed.shown.runner:
        return True
    if later.command is None or failed.command is None:
        return False
    return later.command.is_as_wide_as(failed.command)


def _short(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _LONGEST_COMMAND else f"{line[: _LONGEST_COMMAND - 1]}…"
