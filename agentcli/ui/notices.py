"""Describe events other than messages and tool calls in one line, if they are shown at all."""

from __future__ import annotations

from agentcli.events import Event, LLMMetrics, OpaqueEvent
from agentcli.events.actions import (
    CondensationAction,
    RenameAction,
    RewindAction,
    SystemMessageAction,
)
from agentcli.events.observations import (
    AgentStateChangedObservation,
    CheckpointObservation,
    DecisionObservation,
    ErrorObservation,
    GitCleanupObservation,
    HookObservation,
    ModelSwitchedObservation,
    PrefixChangedObservation,
    RecallObservation,
    ReplyDiscardedObservation,
    RequestAdaptedObservation,
    RequirementJudgedObservation,
    SessionStartedObservation,
)
from agentcli.events.progress import Status
from agentcli.ui.summary import duration, money, quantity, whole_seconds
from agentcli.ui.text import Line, Span, printable

_SHOWN_STATES = frozenset({"paused", "rejected", "stopped"})
"""States that are worth a line; "error" has one of its own."""
_LONGEST_SAID = 200


def note(event: Event, verbose: int = 0) -> Line | None:
    match event:
        case ErrorObservation():
            return error_line(event.content or event.error_id)
        case AgentStateChangedObservation():
            return _state(event, verbose)
        case SessionStartedObservation():
            return _dim(_session(event))
        case CondensationAction(summary=str()):
            return _dim(event.message)
        case (
            ReplyDiscardedObservation()
            | OpaqueEvent()
            | RewindAction()
            | RenameAction()
            | ModelSwitchedObservation()
            | RequestAdaptedObservation()
            | GitCleanupObservation()
        ):
            return _dim(event.message)
        case CheckpointObservation():
            return _checkpoint(event)
        case RequirementJudgedObservation():
            return _requirement(event)
        case DecisionObservation():
            return _dim(decision_text(event)) if verbose else None
        case RecallObservation() | CondensationAction() | PrefixChangedObservation() if verbose:
            return _dim(event.message)
        case HookObservation() if verbose or (event.exit_code != 0 and not _on_call(event)):
            return _dim(_hook(event))
        case SystemMessageAction() if verbose > 1:
            return _dim(event.message)
    return None


def decision_text(event: DecisionObservation) -> str:
    """Say who decided and why, to be shown after a call."""
    verb = {"allow": "allowed", "deny": "not allowed", "ask": "asked"}[event.decision]
    who = "you" if event.by == "user" else event.by
    until = "always here" if event.scope == "always" else "for this session"
    grant = f", and {until} {event.grant}" if event.grant else ""
    reason = f": {event.reason}" if event.reason and event.decision != "allow" else ""
    return printable(f"{verb} by {who}{grant}{reason}", multiline=False)


def _checkpoint(event: CheckpointObservation) -> Line | None:
    if not event.tree:
        return _dim(f"no undo: {event.content}")
    left_out = ", ".join(event.left_out)
    return _dim(f"undo can't bring back: {left_out}") if left_out else None


def _requirement(event: RequirementJudgedObservation) -> Line:
    """Return a line on what was required, and whether it is met."""
    facts = [f"check $ {event.command}" if event.command else f"required: {event.requirement}"]
    if event.requirement == "check":
        code = event.exit_code
        facts += ["out of time" if code is None else f"exit {code}", duration(event.duration_s)]
    said = [line for line in event.content.splitlines() if line.strip()]
    if said and not event.met:
        facts.append((said[-1] if event.requirement == "check" else said[0])[:_LONGEST_SAID])
    told = printable(" · ".join(facts), multiline=False)
    return _dim(f"✓ {told}") if event.met else [Span(f"✗ {told}", "yellow")]


def _hook(event: HookObservation) -> str:
    """Say which hook ran, and what it said."""
    outcome = "failed" if event.exit_code is None else f"exit {event.exit_code}"
    first = event.content.strip().split("\n", 1)[0][:_LONGEST_SAID]
    said = f": {first}" if first else ""
    return f"{event.event} hook {'blocked' if event.blocked else outcome}{said} ({event.command})"


def _on_call(event: HookObservation) -> bool:
    """Return whether a call's line already says that this hook refused it."""
    return event.blocked and event.event == "PreToolUse"


def metrics_line(metrics: LLMMetrics) -> Line:
    cached = 100 * metrics.cache_read_tokens // max(metrics.prompt_tokens, 1)
    facts = [
        f"{quantity(metrics.prompt_tokens)} in ({cached}% cached)",
        f"{quantity(metrics.completion_tokens)} out",
        money(metrics.cost_usd),
        duration(metrics.latency_s),
    ]
    return _dim(" · ".join(facts))


def status_text(status: Status, elapsed: float) -> str:
    """Return the text of a status after `elapsed` seconds."""
    detail = printable(status.detail, multiline=False)
    if status.until_s is not None:
        left = max(0, round(status.until_s - elapsed))
        return f"{status.phase} in {whole_seconds(left)}" + (f" · {detail}" if detail else "")
    return f"{status.phase}{f': {detail}' if detail else ''} … {whole_seconds(int(elapsed))}"


def error_line(text: str) -> Line:
    return [Span("error: ", "red bold"), Span(printable(text.strip()), "red")]


def _dim(text: str) -> Line:
    return [Span(printable(text, multiline=False), "dim")]


def _session(event: SessionStartedObservation) -> str:
    verb = "resumed " if event.resumed else ""
    sandbox = "no sandbox" if event.sandbox == "none" else event.sandbox
    return f"{verb}{event.session_id} · {event.model} · {sandbox} · {event.workspace}"


def _state(event: AgentStateChangedObservation, verbose: int) -> Line | None:
    if event.agent_state == "error":
        return error_line(event.content or event.reason)
    if event.agent_state not in _SHOWN_STATES and verbose < 2:
        return None
    why = event.content or event.reason.replace("_", " ")
    if event.agent_state == "paused" and why:
        return _dim(why)
    return _dim(event.agent_state.replace("_", " ") + (f": {why}" if why else ""))
