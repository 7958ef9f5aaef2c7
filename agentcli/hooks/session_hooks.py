"""The hooks of a session: when they run, what they are sent, and what their answers change."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentcli.agent.ending import Ending
from agentcli.errors import TurnInterrupted
from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import MCPAction, MessageAction, is_user_message, tool_name
from agentcli.events.conversation import newest_first
from agentcli.events.observations import CmdOutputObservation, DecisionObservation, HookObservation
from agentcli.events.progress import Notice, Status
from agentcli.events.texts import json_value
from agentcli.hooks.runner import HookRun, HookRunner
from agentcli.interrupts import interruptible_after_end
from agentcli.sessions.session import SessionLog
from agentcli.sessions.state import AgentState

PRE_TOOL = "PreToolUse"
POST_TOOL = "PostToolUse"
PROMPT = "UserPromptSubmit"
START = "SessionStart"
END = "SessionEnd"
STOP = "Stop"
COMPACT = "PreCompact"

MOST_STOPS = 3
"""How often Stop hooks may keep one turn from ending."""
MAX_CONTEXT_CHARS = 30_000
MAX_REASON_CHARS = 4_000
_NO_REASON = "the hook gave no reason"
_BLOCKED = 2
_NOT_STARTED = (126, 127)
"""Exit codes of a shell when a command does not exist or may not be run."""
_SIGNALLED = 128
_STDOUT_TO_MODEL = {PROMPT, START}
"""Hook events whose stdout is passed on to the model."""
_DONE = (AgentState.FINISHED, AgentState.AWAITING_USER_INPUT)


@dataclass(frozen=True)
class Hook:
    """A hook from the settings, for tools whose whole name matches `matcher`. `prepare` turns
    `command` into the command to run; an OSError from it is reported as the run's fault."""

    command: str
    matcher: str
    timeout_s: float
    runner: HookRunner
    prepare: Callable[[str], str] = str

    def run(self, payload: bytes, alive: Callable[[], None]) -> HookRun:
        """Run the hook with `payload` on stdin; `alive` is called while waiting for it."""
        try:
            command = self.prepare(self.command)
        except OSError as error:
            return HookRun(None, fault=f"could not be prepared: {error.strerror}")
        return self.runner(command, payload, self.timeout_s, alive)


@dataclass(frozen=True)
class Verdict:
    """The answer of one hook. `reason` says why it blocks, and is empty if it does not; `context`
    is text for the model."""

    reason: str = ""
    context: str = ""


class SessionHooks:
    """The hooks of a session, by hook event. They run one after the other on the session's thread,
    once the event that they hear about has been recorded."""

    def __init__(self, hooks: Mapping[str, Sequence[Hook]], workspace: str) -> None:
        self._hooks = hooks
        self._workspace = workspace

    def before(self, session: SessionLog, action: Action) -> str:
        """Ask the hooks about `action`: return why one refuses it, or "" if none does. A refusal is
        recorded as the hook's decision. A hook that fails to answer refuses, as it may be a
        guard."""
        reason = self._first_reason(session, PRE_TOOL, _call_of(action))
        if reason:
            session.emit(
                DecisionObservation(cause=action.id, decision="deny", by="hook", reason=reason)
            )
        return reason

    def after(self, session: SessionLog, action: Action, observation: Observation) -> None:
        """Report a result to the hooks; the reason of one that blocks goes to the model."""
        if not self._hooks.get(POST_TOOL):
            return
        exit_code = None
        if isinstance(observation, CmdOutputObservation):
            exit_code = observation.metadata.exit_code
        payload = {
            **_call_of(action),
            "tool_output": session.redact(observation.content),
            "exit_code": exit_code,
        }
        for verdict in self._ask(session, POST_TOOL, payload, may_block=False):
            if verdict.reason:
                _tell_model(session, f"A {POST_TOOL} hook of the user says", verdict.reason)

    def submitting(self, session: SessionLog, text: str) -> str:
        """Return why a hook rejects the user's message, or "" if none does."""
        return self._first_reason(session, PROMPT, {"prompt": text})

    def started(self, session: SessionLog, *, resumed: bool) -> None:
        """Tell the hooks that the session was opened. They can't block it."""
        reason = {"reason": "resumed" if resumed else "new"}
        list(self._ask(session, START, reason, may_block=False))

    def ended(self, session: SessionLog, reason: str) -> None:
        """Tell the hooks that the session is about to close. An interrupt ends only the hooks."""
        try:
            with interruptible_after_end():
                list(self._ask(session, END, {"reason": reason}, may_block=False))
        except TurnInterrupted:
            session.notify(Notice(f"the {END} hook was interrupted"))

    def stopping(self, session: SessionLog, ending: Ending) -> bool:
        """Return whether a hook keeps the turn going; its reason is recorded for the model. The
        hooks run only when a turn ended by itself, and may hold it at most `MOST_STOPS` times."""
        if ending.agent_state not in _DONE or not self._hooks.get(STOP):
            return False
        held = _times_held(session.events)
        payload = {"reason": ending.reason, "stop_hook_active": held > 0}
        for verdict in self._ask(session, STOP, payload, may_block=held < MOST_STOPS):
            if not verdict.reason:
                continue
            if held >= MOST_STOPS:
                session.notify(
                    Notice(f"a {STOP} hook held this turn {held} times already; it ends now")
                )
                return False
            _tell_model(
                session, f"A {STOP} hook of the user keeps you from ending here", verdict.reason
            )
            return True
        return False

    def compacting(self, session: SessionLog, reason: str) -> str:
        """Return why a hook puts off compacting the conversation, or "" if none does."""
        return self._first_reason(session, COMPACT, {"reason": reason})

    def _first_reason(self, session: SessionLog, event: str, payload: dict[str, Any]) -> str:
        """Return why the first hook that blocks does so, or ""; later hooks are not run."""
        verdicts = self._ask(session, event, payload)
        return next((verdict.reason for verdict in verdicts if verdict.reason), "")

    def _ask(
        self, session: SessionLog, event: str, payload: dict[str, Any], *, may_block: bool = True
    ) -> Iterator[Verdict]:
        """Yield the verdicts of the hooks of `event`; each runs when its verdict is asked for."""
        name = payload.get("tool_name")
        for hook in self._hooks.get(event, ()):
            if name is None or not hook.matcher or re.fullmatch(hook.matcher, name):
                yield self._one(session, event, hook, payload, may_block)

    def _one(
        self, session: SessionLog, event: str, hook: Hook, payload: dict[str, Any], may_block: bool
    ) -> Verdict:
        data = {
            "hook_event_name": event,
            "session_id": session.id,
            "session_folder": str(session.folder),
            "cwd": self._workspace,
            **payload,
        }
        status = Status("hook", event)
        session.notify(status)
        run = hook.run(json.dumps(data).encode(), lambda: session.notify(status))
        verdict = _verdict(event, run)
        _record(session, event, hook, run, blocked=bool(verdict.reason) and may_block)
        if verdict.context:
            _tell_model(session, f"From a {event} hook of the user", verdict.context)
        return verdict


def _verdict(event: str, run: HookRun) -> Verdict:
    code = run.exit_code
    if code == _BLOCKED:
        return Verdict(reason=(run.stderr or run.stdout)[:MAX_REASON_CHARS] or _NO_REASON)
    if code == 0:
        return Verdict(context=run.stdout[:MAX_CONTEXT_CHARS] if event in _STDOUT_TO_MODEL else "")
    no_answer = code is None or code < 0 or code in _NOT_STARTED or code > _SIGNALLED
    if no_answer and event == PRE_TOOL:
        return Verdict(reason=f"the hook that should judge this {_fault(run)}")
    return Verdict()


def _fault(run: HookRun) -> str:
    said = f": {run.stderr[:MAX_REASON_CHARS]}" if run.stderr else ""
    if run.exit_code is None:
        return run.fault + said
    if run.exit_code < 0:
        return f"was ended by signal {-run.exit_code}{said}"
    return f"failed with exit code {run.exit_code}{said}"


def _record(session: SessionLog, event: str, hook: Hook, run: HookRun, *, blocked: bool) -> None:
    """Record the run, without a cause, so that it is not mistaken for the result of an action."""
    said = "\n".join(text for text in (run.fault, run.stderr, run.stdout) if text)
    if said or run.exit_code != 0:
        session.emit(
            HookObservation(
                event=event,
                command=hook.command,
                content=said,
                exit_code=run.exit_code,
                blocked=blocked,
            )
        )


def _tell_model(session: SessionLog, by: str, text: str) -> None:
    session.emit(MessageAction(content=f"[{by}:]\n{text}", source=Source.ENVIRONMENT))


def _call_of(action: Action) -> dict[str, Any]:
    """Return the tool call as the model made it, so that hooks judge what would run."""
    if isinstance(action, MCPAction):
        # The model may have called the tool by way of another one.
        return {"tool_name": tool_name(action), "tool_input": action.arguments}
    call = action.tool_call_metadata
    if call is None:
        return {"tool_name": action.kind, "tool_input": {}}
    arguments = json_value(call.raw_arguments, call.raw_arguments)
    return {"tool_name": call.function_name, "tool_input": arguments}


def _times_held(events: Sequence[Event]) -> int:
    """Return how often Stop hooks kept the turn from ending since the user's last message."""
    held = 0
    for event in newest_first(events):
        if is_user_message(event):
            break
        held += isinstance(event, HookObservation) and event.event == STOP and event.blocked
    return held
