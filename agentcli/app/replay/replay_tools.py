"""Carries out the calls of a repeated session, with its tools in a sandbox around the copy."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.policy.session_policy import reading_rules
from agentcli.app.replay.replay_copy import ReplayCopy
from agentcli.app.sandbox import Containment
from agentcli.app.tool_context import remove_scratch, tool_context
from agentcli.errors import ConfigError, SessionError, ToolError
from agentcli.events import Action
from agentcli.events.actions import CmdRunAction, SystemMessageAction
from agentcli.events.observations import SessionStartedObservation
from agentcli.messages import ToolCall
from agentcli.replay.normalise import Patterns
from agentcli.replay.plan import REPLAYED_TOOLS
from agentcli.security.redact import Redactor
from agentcli.sessions.session import Session
from agentcli.settings import Settings
from agentcli.tools.base import ToolArguments, ToolContext, ToolResult
from agentcli.tools.registry import TOOLS, ToolRegistry

_LAYERS = ("bubblewrap", "landlock", "seatbelt")
_JOB_S = 30.0
"""How long a job gets to end if it had already ended when it was looked at."""
_TICK_S = 0.02


@dataclass(frozen=True)
class ReplayContext:
    """The conditions for doing a session again: `settings` are those for its calls, and `own` are
    the user's patterns for what differs by itself."""

    builder: AgentBuilder
    settings: Settings
    redactor: Redactor
    own: Patterns


def replay_containment(
    context: ReplayContext, copy: ReplayCopy, folder: Path, started: SessionStartedObservation
) -> Containment:
    """Return a containment around the copy: with the session's layer if that works here, always
    with some layer, and never with the network. Raises ConfigError if none works."""
    wanted = started.sandbox if started.sandbox in _LAYERS else "auto"
    try:
        return _contained(context, copy, folder, wanted, sealed=started.sealed)
    except ConfigError:
        if wanted == "auto":
            raise
    return _contained(context, copy, folder, "auto", sealed=started.sealed)


def _contained(
    context: ReplayContext, copy: ReplayCopy, folder: Path, layer: str, *, sealed: bool
) -> Containment:
    settings = context.settings.changed(
        agent={"approval": "plan" if sealed else "ask"},
        sandbox={"layer": layer, "network": False, "writable": [], "share_tmp": False},
        # Rules could open ports of the machine.
        security={"allow": [], "deny": []},
    )
    containment = replace(
        context.builder.containment(folder, copy.workspace),
        settings=settings,
        lent=[Path(copy.root) / path for path in copy.lent],
    )
    if not containment.sandbox.contains:
        raise ConfigError("no sandbox works here, and calls are repeated only in one")
    if not all(path.is_relative_to(copy.top) for path in containment.scope.writable):
        raise SessionError(f"the copy is inside a repository: {containment.scope.writable[0]}")
    return containment


class ReplayTools:
    """The session's tools, for one process that worked on it. `close` ends all that they run."""

    def __init__(
        self,
        containment: Containment,
        session: Session,
        started: SessionStartedObservation,
        system: SystemMessageAction | None,
    ) -> None:
        self._context = context = tool_context(session, containment, started.model)
        of_user = containment.settings, containment.environ, containment.workspace
        rules = reading_rules(*of_user, containment.sandbox.view)
        context.files.obey(lambda: rules)
        self._ending = ExitStack()
        self._ending.callback(remove_scratch, session)
        if context.git is not None:
            self._ending.callback(context.git.close)
        self._ending.callback(context.python.close)
        self._ending.callback(context.shell.close)
        every = TOOLS.all()
        names: Sequence[Any] = [s["name"] for s in system.tools] if system else list(every)
        tools = [
            every[name] if name in REPLAYED_TOOLS else replace(every[name], run=_refuse)
            for name in names
            if name in every
        ]
        self._tools = ToolRegistry(tools, context)

    def close(self) -> None:
        self._ending.close()

    def parse(self, action: Action) -> Action | None:
        """Parse the call of `action` again; None if there is no such tool."""
        call = action.tool_call_metadata
        if call is None or not self._tools.has(call.function_name):
            return None
        return self._tools.parse(
            ToolCall(call.tool_call_id, call.function_name, call.raw_arguments)
        )

    def execute(self, action: Action, session: Session) -> None:
        """Carry out the action and record the result. Raises TurnInterrupted, and SessionError if
        the action asks to leave the sandbox, as only a record that was tampered with does."""
        parsed = self.parse(action)
        if isinstance(parsed, CmdRunAction) and (parsed.network or parsed.unsandboxed):
            raise SessionError(f"call {action.id} is not what its event says")
        for observation in self._tools.execute_all([action], lambda action_id, text: None):
            session.emit(observation)
        if self._context.git is not None:
            # What the watch puts right was an event of its own, which still follows in the record.
            self._context.git.observations()

    def wait_for_job(self, action: CmdRunAction) -> None:
        """Wait for a job that had ended at this point: without a model, we get here sooner."""
        deadline = time.monotonic() + _JOB_S
        jobs = [job for job in self._context.shell.jobs if job.job_id == action.job]
        while jobs and not jobs[0].look() and time.monotonic() < deadline:
            time.sleep(_TICK_S)

    def file(self, path: str) -> Path:
        """Return the real place of the file that the model knows as `path`."""
        return self._context.files.locate(path)


def _refuse(arguments: ToolArguments, context: ToolContext) -> ToolResult:
    raise ToolError("this is not repeated")
