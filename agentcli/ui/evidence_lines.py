"""Show people the evidence of a session: what its log proves."""

from __future__ import annotations

from collections.abc import Iterator

from agentcli.evidence.values import Evidence, TestRun
from agentcli.ui.sanitize import printable
from agentcli.ui.summary import count
from agentcli.workspace.names import first_names

_MOST_NAMED = 5
_STANDS = {
    "passed": "tests passed after the last change",
    "failed": "tests failed",
    "outdated": "files changed after the tests",
    "not_run": "no tests were run",
    "unknown": "it is unknown whether tests pass with the files as they were left",
}


def evidence_lines(evidence: Evidence) -> Iterator[str]:
    """Yield lines about the evidence; none if nothing was changed or tested. The numbers of events
    are those that --event takes."""
    if evidence.status == "none":
        return
    changed = evidence.files_changed
    at = f", the last at event {evidence.changed_at}" if changed else ""
    named = f"{count(len(changed), 'file')} changed{at}"
    yield f"evidence: {_STANDS[evidence.status]} · {named}"
    if evidence.newest is not None:
        yield f"  event {evidence.newest.event_id}: {_run(evidence.newest)}"
    if evidence.never_run:
        named = first_names(evidence.never_run, _MOST_NAMED)
        yield printable(f"  changed and never run: {named}", multiline=False)
    if evidence.not_run_again:
        named = first_names(evidence.not_run_again, _MOST_NAMED)
        yield printable(f"  failed and not fixed since: {named}", multiline=False)


def _run(run: TestRun) -> str:
    why = f" ({run.why})" if run.why else ""
    child = f" in {run.session_id}" if run.session_id else ""
    return printable(f"{run.command}{child}: {run.outcome}{why}", multiline=False)
