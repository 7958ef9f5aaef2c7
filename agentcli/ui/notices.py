"""Describe events other than messages and tool calls in one line, if they are shown at all."""

from __future__ import annotations

from agentcli.events import Event, LLMMetrics, OpaqueEvent, actions
from agentcli.events import observations as obs
from agentcli.events.progress import Status
from agentcli.ui.summary import duration, money, quantity, whole_seconds
from agentcli.ui.text import Line, Span, printable

_SHOWN_STATES = frozenset({"paused"})
"""States that are worth a line; "error" has one of its own."""
_SHOWN_IF_VERBOSE = (
    obs.RecallObservation,
    obs.PrefixChangedObservation,
    actions.CondensationAction,
)
_LONGEST_SAID = 200


def note(event: Event, verbose: int = 0) -> Line | None:
    match event:
        case obs.ErrorObservation():
            return error_line(event.content or event.error_id)
        case obs.AgentStateChangedObservation():
            return _state(event, verbose)
        case obs.SessionStartedObservation():
            verb = "resumed " if event.resumed else ""
            sandbox = "no sandbox" if event.sandbox == "none" else event.sandbox
            return _dim(f"{verb}{event.session_id} · {event.model} · {sandbox} · {event.workspace}")
        case actions.CondensationAction(summary=str()):
            return _dim(event.message)
        case (
            obs.ReplyDiscardedObservation()
            | OpaqueEvent()
            | actions.RewindAction()
            | actions.RenameAction()
            | obs.ModelSwitchedObservation()
            | obs.RequestAdaptedObservation()
            | obs.GitCleanupObservation()
        ):
            return _dim(event.message)
        case obs.CheckpointObservation(tree="", content=why):
            return _dim(f"no undo: {why}")
        case obs.CheckpointObservation(left_out=left_out) if any(left_out):
            return _dim(f"undo can't bring back: {', '.join(left_out)}")
        case obs.RequirementJudgedObservation():
            return _requirement(event)
        case obs.DecisionObservation():
            return _dim(decision_text(event)) if verbose else None
        case obs.HookObservation():
            return _hook(event, verbose)
    shown = verbose and isinstance(event, _SHOWN_IF_VERBOSE)
    if shown or (verbose > 1 and isinstance(event, actions.SystemMessageAction)):
        return _dim(event.message)
    return None


def decision_text(event: obs.DecisionObservation) -> str:
    """Say who decided and why, to be shown after a call."""
    verb = {"allow": "allowed", "deny": "not allowed", "ask": "asked"}[event.decision]
    who = "you" if event.by == "user" else event.by
    until = "always here" if event.scope == "always" else "for this session"
    grant = f", and {until} {event.grant}" if event.grant else ""
    reason = f": {event.reason}" if event.reason and event.decision != "allow" else ""
    return printable(f"{verb} by {who}{grant}{reason}", multiline=False)


def _requirement(event: obs.RequirementJudgedObservation) -> Line:
    """Return a line on what was required, and whether it is met."""
    facts = [f"check $ {event.command}" if event.command else f"required: {event.requirement}"]
    if event.requirement == "check":
        code = event.exit_code
        facts += ["out of time" if code is None else f"exit {code}", duration(event.duration_s)]
    said = [line for line in event.content.splitlines() if line.strip()]
    if said and not event.met:
        facts.append((said[-1] if event.requirement == "check" else said[0])[:_LONGEST_SAID])
    line = printable(" · ".join(facts), multiline=False)
    return _dim(f"✓ {line}") if event.met else [Span(f"✗ {line}", "yellow")]


def _hook(event: obs.HookObservation, verbose: int) -> Line | None:
    """Say which hook ran and what it said, unless it refused a call, whose line says so."""
    refused_call = event.blocked and event.event == "PreToolUse"
    if not verbose and (event.exit_code == 0 or refused_call):
        return None
    outcome = "failed" if event.exit_code is None else f"exit {event.exit_code}"
    first = event.content.strip().split("\n", 1)[0][:_LONGEST_SAID]
    word, said = "blocked" if event.blocked else outcome, f": {first}" if first else ""
    return _dim(f"{event.event} hook {word}{said} ({event.command})")


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


def _state(event: obs.AgentStateChangedObservation, verbose: int) -> Line | None:
    if event.agent_state == "error":
        return error_line(event.content or event.reason)
    if event.agent_state not in _SHOWN_STATES and verbose < 2:
        return None
    why = event.content or event.reason.replace("_", " ")
    if event.agent_state == "paused" and why:
        return _dim(why)
    return _dim(event.agent_state.replace("_", " ") + (f": {why}" if why else ""))
