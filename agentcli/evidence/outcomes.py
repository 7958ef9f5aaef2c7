"""Tell how tests went: by the exit code if it is theirs, else by what they printed."""

from __future__ import annotations

import re
from typing import Literal

from agentcli.evidence.scripts import ScriptTests
from agentcli.evidence.values import Outcome

_NO_SUCH_COMMAND = (126, 127)
_BEGINNING = 2_000
_PRINTED: tuple[Literal["failed", "passed"], ...] = ("failed", "passed")
"""Outcomes that a runner's summary may tell; a failure counts more."""
_NO_FOLDER = re.compile(r"^.*: (?:line \d+: )?cd: ", re.MULTILINE)


def outcome_of(
    tests: ScriptTests, number: int, exit_code: int | None, output: str
) -> tuple[Outcome, str] | None:
    """Return the outcome of the test `number` of a script that ended with `exit_code` (None: not
    known), and the reason if it is unknown. None if no test was run."""
    runner = tests.tests[number].runner
    if exit_code == 0 and number in tests.if_zero:
        if runner.printed("untested", output):
            return "unknown", "it ran no test"
        return "passed", ""
    if exit_code and number in tests.if_failed:
        if (
            exit_code in _NO_SUCH_COMMAND
            or exit_code in runner.none
            or _NO_FOLDER.search(output[:_BEGINNING])
        ):
            return None
        return "failed", ""
    for outcome in _PRINTED:
        if runner.printed(outcome, output):
            return outcome, ""
    if exit_code is None:
        return "unknown", "how it ended is not known"
    return "unknown", f"exit {exit_code} is not that of the tests alone"
