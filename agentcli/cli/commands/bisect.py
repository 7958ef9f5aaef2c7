"""Find the step of a session that broke a check, by bisection.

The check is a command for bash whose exit code says whether the files are right. It runs in the
sandbox, in copies of the files as they were after some of the steps: at most 7 times for 60 steps.
Its results are kept with the session, so asking again costs nothing.

Examples:
  agent bisect --check "pytest -q"
  agent bisect parser --check "make test" --until-passes
  agent bisect --check ./flaky.sh --runs 3 --json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any

from agentcli.app.bisect import Bisection, BisectOptions, BisectResult, Verdict
from agentcli.app.configuration.config import parse_assignments
from agentcli.cli.builders import builder_for_session, redactor
from agentcli.cli.command import Report
from agentcli.cli.commands.diff import change_as_dict, change_line, patch_lines
from agentcli.cli.flags import require_check, seconds
from agentcli.cli.options import Assignments, Json, NoPager, SessionOption, SessionOrNewest, option
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.terminal import paged, working
from agentcli.sessions.finder import state_of
from agentcli.sessions.history import FileState, actions_of_step
from agentcli.ui.screen import Screen
from agentcli.ui.summary import duration
from agentcli.ui.text import Span, Style, printable, say_note

_LINES_OF_CHECK = 15


def bisect(
    check: Annotated[str, option("--check COMMAND", "Exit code 0 says that all is well.")],
    named: SessionOrNewest = None,
    until_passes: Annotated[
        bool, option("--until-passes", "The first step after which it passes.")
    ] = False,
    max_time: Annotated[str, option("--max-time TIME", "Of each check: 90, 10m, 1h.")] = "10m",
    runs: Annotated[int, option("--runs N", "Check each state N times.", min=1)] = 1,
    again: Annotated[bool, option("--again", "Forget what checks came to before.")] = False,
    assignments: Assignments = None,
    session: SessionOption = None,
    no_pager: NoPager = False,
    as_json: Json = False,
) -> int:
    require_check(check)
    folder = selected_session(named, session)
    options = BisectOptions(check, until_passes, seconds("--max-time", max_time), runs, again)
    builder = builder_for_session(state_of(folder), flags=parse_assignments(assignments))
    bisection = Bisection(folder, builder, options, redactor())
    found = bisection.run(_Progress(bisection).watch)
    for note in _notes(bisection, found):
        say_note(printable(note, multiline=False))
    if as_json:
        print(json.dumps(_as_dict(bisection, found)))
    elif found.first is None or found.before is None:
        print(_nowhere(found, until_passes=until_passes), flush=True)
        _tell_output(found.verdicts[-1])
    else:
        _tell(bisection, found.before, found.first, no_pager)
    return 0 if found.before else 1


class _Progress:
    """Shows a line for each state, once it is checked."""

    def __init__(self, bisection: Bisection) -> None:
        self._bisection = bisection
        self._screen = Screen(sys.stderr, live=False)
        self._number = 0

    def watch(self, state: FileState, check: Callable[[], Verdict]) -> Verdict:
        self._number += 1
        most = max(self._bisection.most_checks, self._number)
        what = f"check {self._number} of at most {most}: {_moment(state)}"
        with working(what):
            verdict = check()
        is_old = verdict.kept == len(verdict.results)
        took = duration(sum(result.duration_s for result in verdict.results))
        style: Style = "green" if verdict.passed else "red"
        facts = Span(f" · {'known from before' if is_old else took}", "dim")
        self._screen.put("note", [[Span(f"{what} "), Span(_outcome(verdict), style), facts]])
        self._screen.flush()
        return verdict


def _moment(state: FileState) -> str:
    if state.step == 0:
        return "before the first step"
    return f"after step {state.step}" if state.by_agent else f"some time after step {state.step}"


def _outcome(verdict: Verdict) -> str:
    if not verdict.is_flaky:
        return verdict.worst.outcome
    failed = sum(not result.passed for result in verdict.results)
    return f"failed {failed} of {len(verdict.results)} times"


def _notes(bisection: Bisection, found: BisectResult) -> Iterator[str]:
    yield from bisection.notes
    if flaky := [verdict for verdict in found.verdicts if verdict.is_flaky]:
        where = ", ".join(f"{_moment(each.state)} it {_outcome(each)}" for each in flaky)
        yield f"the check is not reliable: {where}; that counts as a failure"


def _nowhere(found: BisectResult, *, until_passes: bool) -> str:
    """Say why there is no such step."""
    verb, never = ("passes", "fails") if until_passes else ("fails", "passes")
    if found.first is None:
        return f"there is no step after which the check {verb}: at the end it {never}"
    return f"no step is the first after which the check {verb}: it {verb} before the first one"


def _tell(bisection: Bisection, before: Verdict, first: Verdict, no_pager: bool) -> None:
    store = bisection.store
    span = before.state.tree, first.state.tree
    verb = "passes" if bisection.options.until_passes else "fails"
    headline = [
        printable(line, multiline=False) for line in _headline(bisection, first.state, verb)
    ]
    patch = store.diff(*span)
    report = Report(
        [*([Span(line)] for line in headline), [], *patch_lines(patch)],
        [change_line(change) for change in store.changes(*span) if change.git_description],
        text="\n".join([*headline, "", patch]),
    )
    with paged(no_pager):
        report.show()
    _tell_output(first)


def _tell_output(verdict: Verdict) -> None:
    """Show why a check failed; the cause may be something that is missing in every copy."""
    if verdict.passed or not verdict.worst.tail:
        return
    print(f"what the check printed {_moment(verdict.state)}:", file=sys.stderr)
    for line in verdict.worst.tail.splitlines()[-_LINES_OF_CHECK:]:
        print(f"  {printable(line, multiline=False)}", file=sys.stderr)


def _headline(bisection: Bisection, state: FileState, verb: str) -> Iterator[str]:
    event = f"event {state.event_id}"
    if not state.by_agent:
        yield f"what somebody else changed after step {state.step}: from then on the check {verb}"
        return
    actions = actions_of_step(bisection.record.events, state.step)
    if not actions:
        # The steps of the best try were made in a copy; here they arrived all at once.
        moment = f"after step {state.step} ({event})"
        yield f"what was brought in {moment}: from then on the check {verb}"
        return
    yield f"step {state.step} is the first after which the check {verb} ({event})"
    for action in actions:
        yield f"  {action.message}"


def _as_dict(bisection: Bisection, found: BisectResult) -> dict[str, Any]:
    """Return the outcome for --json. `result` is "found", "never" (the condition does not hold at
    the end) or "always" (it held from the start)."""
    options = bisection.options
    first, before = found.first, found.before
    told: dict[str, Any] = {
        "session_id": bisection.folder.name,
        "check": options.check,
        "until": "passes" if options.until_passes else "fails",
        "result": "found" if before else "always" if first else "never",
        "checks_run": found.checks_run,
        "states": [_verdict_as_dict(verdict) for verdict in found.verdicts],
    }
    if first and before:
        span = before.state.tree, first.state.tree
        events = bisection.record.events
        by_agent, step = first.state.by_agent, first.state.step
        told |= {
            "step": step,
            "event_id": first.state.event_id,
            "by_agent": by_agent,
            "actions": [a.message for a in actions_of_step(events, step)] if by_agent else [],
            "changes": list(map(change_as_dict, bisection.store.changes(*span))),
            "diff": bisection.store.diff(*span),
        }
    return told


def _verdict_as_dict(verdict: Verdict) -> dict[str, Any]:
    return {
        "step": verdict.state.step,
        "by_agent": verdict.state.by_agent,
        "passed": verdict.passed,
        "flaky": verdict.is_flaky,
        "exit_codes": [result.exit_code for result in verdict.results],
        "known": verdict.kept,
        "tail": verdict.worst.tail,
    }


COMMAND = bisect
