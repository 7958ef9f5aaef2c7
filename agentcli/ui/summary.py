"""A run in words: how it ended, its figures, what its log proves, and the closing line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from agentcli.evidence import NOTHING, Evidence
from agentcli.messages import Usage
from agentcli.ui.text import printable
from agentcli.workspace.names import first_names


@dataclass(frozen=True, slots=True)
class RunSummary:
    """How a run ended. `status` is the session's state, `reason` a stable word that says why; times
    are in seconds. Programs get the fields in this order.

    `cost_usd` is None if the price of a model used is not known. `error`, `hint` and
    `evidence_told` are for people. `tmp_files` were left in the session's own /tmp, which is kept
    in `tmp_folder`. `evidence` covers the whole session, `files_changed` only this run. `tries` has
    the results of several tries, if there were any.
    """

    status: str
    session_id: str
    reason: str = ""
    exit_code: int = 0
    answer: str = ""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = None
    duration_s: float = 0.0
    steps: int = 0
    files_changed: tuple[str, ...] = ()
    tmp_files: tuple[str, ...] = ()
    tmp_folder: str = ""
    evidence: Evidence = NOTHING
    evidence_told: str = ""
    tries: tuple[dict[str, Any], ...] = ()
    resume_command: str = ""
    error: str = ""
    hint: str = ""


SIGNALLED = {130: "interrupted", 141: "stdout was closed", 143: "terminated"}
"""Exit codes that need no further explanation, with their words."""

_MOST_IN_TMP = 5
STATE_WORDS = {
    "error": "failed",
    "awaiting_user_input": "waits for you",
    "awaiting_user_confirmation": "waits for approval",
}
"""Words for the states of a session whose own names would not do."""


def closing_facts(summary: RunSummary) -> list[str]:
    """Return the parts of `done in 12 s · 8 steps · …`, without the resume command."""
    took = duration(summary.duration_s)
    if summary.exit_code == 0:
        facts = [f"done in {took}"]
    elif summary.exit_code in SIGNALLED:
        facts = [f"{SIGNALLED[summary.exit_code]} after {took}"]
    else:
        ending = STATE_WORDS.get(summary.status, summary.status)
        reason = f" ({summary.reason.replace('_', ' ')})" if summary.reason else ""
        facts = [f"{ending}{reason} after {took}"]
    if summary.steps:
        facts.append(count(summary.steps, "step"))
        facts.append(tokens_used(summary.usage))
        facts.append(money(summary.cost_usd))
    if len(summary.tries) > 1 and summary.exit_code == 0:
        facts.append(f"the best of {len(summary.tries)} tries")
    if summary.files_changed:
        facts.append(f"{count(len(summary.files_changed), 'file')} changed")
    if summary.evidence_told:
        facts.append(summary.evidence_told)
    return facts


def left_in_tmp(summary: RunSummary) -> str:
    """Say where to find files left in the session's own /tmp; "" if there are none."""
    if not summary.tmp_files:
        return ""
    shown = first_names(summary.tmp_files, _MOST_IN_TMP)
    return f"in the session's own /tmp: {shown} · {summary.tmp_folder}"


def tokens_used(usage: Usage) -> str:
    total = f"{quantity(usage.prompt_tokens + usage.completion_tokens)} tokens"
    if not usage.prompt_tokens:
        return total
    return f"{total} ({100 * usage.cache_read_tokens // usage.prompt_tokens}% cached)"


def duration(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 9.95 else whole_seconds(round(seconds))


def whole_seconds(seconds: int) -> str:
    if seconds < 60:
        return f"{seconds} s"
    minutes, rest = divmod(seconds, 60)
    return (
        f"{minutes} min {rest:02} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"
    )


def ago(seconds: float) -> str:
    """Return an age in words, in its largest unit."""
    if seconds < 60:
        return "just now"
    for unit, size in (("week", 604_800), ("day", 86_400)):
        if seconds >= 2 * size:
            return f"{count(int(seconds // size), unit)} ago"
    return f"{int(seconds // 3600)} h ago" if seconds >= 3600 else f"{int(seconds // 60)} min ago"


def quantity(number: int) -> str:
    if number < 1000:
        return str(number)
    unit, letter = (1000, "k") if number < 999_500 else (1_000_000, "M")
    value = number / unit
    digits = f"{value:.0f}" if value >= 99.95 else f"{value:.1f}".removesuffix(".0")
    return digits + letter


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "es" if noun.endswith("ch") else "s")


def money(usd: float | None) -> str:
    if usd is None:
        return "price unknown"
    return f"${usd:.2f}" if usd >= 0.01 or usd == 0 else f"${usd:.4f}"


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
        run = evidence.newest
        why = f" ({run.why})" if run.why else ""
        child = f" in {run.session_id}" if run.session_id else ""
        test = printable(f"{run.command}{child}: {run.outcome}{why}", multiline=False)
        yield f"  event {run.event_id}: {test}"
    for what, names in (
        ("changed and never run", evidence.never_run),
        ("failed and not fixed since", evidence.not_run_again),
    ):
        if names:
            yield printable(f"  {what}: {first_names(names, _MOST_NAMED)}", multiline=False)
