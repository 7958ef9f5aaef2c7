"""Repeat a recorded session: carry out its calls in a sandbox around a copy, and compare each
result with the recorded one.

Decisions (of the model, the policy, the user) are taken from the record, and so is what can't be
repeated; see docs/records.md.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.containment import Containment
from agentcli.app.policy import reading_rules
from agentcli.app.recorder import ReplayCopy
from agentcli.app.resume import system_message
from agentcli.app.session_tools import remove_scratch, tool_context
from agentcli.errors import ConfigError, SessionError, ToolError
from agentcli.events import Action, Event, Observation
from agentcli.events.actions import CmdRunAction, SystemMessageAction, path_of
from agentcli.events.base import COMMON_FIELDS
from agentcli.events.conversation import newest_first
from agentcli.events.observations import (
    CheckpointObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    SessionStartedObservation,
)
from agentcli.messages import ToolCall
from agentcli.replay.compare import Difference, Normaliser, Patterns, difference, differing_parts
from agentcli.replay.plan import (
    REPLAYED_TOOLS,
    PathMap,
    answered_call,
    plan_replay,
    why_not_replayed,
)
from agentcli.sandbox.selection import NO_LAYER
from agentcli.security.redact import MASK, Redactor
from agentcli.sessions.session import SessionLog
from agentcli.settings import Settings
from agentcli.tools.base import ToolArguments, ToolContext, ToolResult
from agentcli.tools.registry import TOOLS, ToolRegistry
from agentcli.workspace.private import read_regular
from agentcli.workspace.text import digest

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
        session: SessionLog,
        started: SessionStartedObservation,
        system: SystemMessageAction | None,
    ) -> None:
        self._context = context = tool_context(session, containment, started.model)
        of_user = containment.settings, containment.environ, containment.workspace
        rules = reading_rules(*of_user, containment.sandbox.view)
        context.files.guard.rules = lambda: rules
        # A copy takes no checkpoints: those of the record, compared at each, stand for its own.
        context.is_kept = lambda path, data: any(
            isinstance(event, CheckpointObservation) for event in newest_first(session.events)
        )
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

    def execute(self, action: Action, session: SessionLog) -> None:
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


@dataclass
class Verification:
    """The findings: how many calls were done `again`, how many were `taken` from the record and
    why, at how many checkpoints the `files` were compared, and the first difference."""

    again: int = 0
    taken: Counter[str] = field(default_factory=Counter)
    files: int = 0
    difference: Difference | None = None
    sandbox: str = ""
    notes: list[str] = field(default_factory=list)


def verify(copy: ReplayCopy, context: ReplayContext, tell: Callable[[Event], None]) -> Verification:
    """Do the session again up to the first difference. `tell` gets each event before it is done.
    Raises ConfigError if no sandbox works, SessionError if something can't be written,
    TurnInterrupted; nothing keeps running afterwards."""
    with ExitStack() as ending:
        session = SessionLog.create(copy.own / "sessions" / copy.session_id)
        ending.callback(session.close)
        session.redact = context.redactor
        replay = _Replay(copy, context, session)
        ending.callback(replay.close)
        for event in copy.events:
            tell(event)
            replay.found.difference = replay.take(event)
            if replay.found.difference is not None:
                break
        return replay.found


class _Replay:
    """Each event of the record gets one with the same number in `session`."""

    def __init__(self, copy: ReplayCopy, context: ReplayContext, session: SessionLog) -> None:
        self.found = Verification(notes=list(copy.notes))
        self._copy = copy
        self._context = context
        self._session = session
        self._paths = PathMap(copy.places)
        self._actions: dict[int, Action] = {}
        self._tools: ReplayTools | None = None
        self._plan = plan_replay(copy.events, copy.start, self._is_inside, hooked=copy.hooked)
        if copy.hooked:
            self._note(
                "hooks may have changed files: those of each snapshot are taken as they were"
            )

    def close(self) -> None:
        if self._tools is not None:
            self._tools.close()
            self._tools = None

    def take(self, event: Event) -> Difference | None:
        """Do `event` again, or record it as it was; return what differs, if anything."""
        found: Difference | None = None
        if isinstance(event, Action):
            self._actions[event.id] = event
            found = self._understood_otherwise(event)
        elif event.id in self._plan.compared and isinstance(event, CheckpointObservation):
            found = self._files_otherwise(event)
        action = answered_call(event, self._actions)
        if action is not None and isinstance(event, Observation):
            found = self._answer(action, event)
        elif isinstance(event, SessionStartedObservation):
            self._open(event)
        else:
            self._session.emit(event)
        if tree := self._plan.restored.get(event.id):
            self._bring(tree)
        return found

    def _open(self, started: SessionStartedObservation) -> None:
        """Act as a process that opens the session: a new shell, in the last one's folder."""
        self.close()
        containment = replay_containment(self._context, self._copy, self._session.folder, started)
        layer = self.found.sandbox = containment.sandbox.layer
        if started.sandbox not in (layer, NO_LAYER):
            self._note(f"its sandbox, {started.sandbox}, does not work here: {layer} is used")
        told = {"workspace": str(self._copy.workspace), "sandbox": layer, "writable": None}
        self._session.emit(started.model_copy(update=told))
        system = system_message(self._copy.events)
        self._tools = ReplayTools(containment, self._session, started, system)

    def _note(self, note: str) -> None:
        if note not in self.found.notes:
            self.found.notes.append(note)

    # --- calls ------------------------------------------------------------------------------------

    def _understood_otherwise(self, action: Action) -> Difference | None:
        """Return a difference if the model's call is parsed differently than it was then."""
        now = self._tools.parse(action) if self._tools is not None else None
        if now is None or _meant(now) == _meant(action):
            return None
        lines = (json.dumps(_meant(each), sort_keys=True) for each in (action, now))
        told = "\n".join(f"{sign}{line}" for sign, line in zip("-+", lines, strict=True))
        return Difference(action.id, action.message, told, "the call is understood differently now")

    def _answer(self, action: Action, recorded: Observation) -> Difference | None:
        why = why_not_replayed(action, recorded)
        if not why and not self._is_inside(action):
            why = "files outside the workspace"
        if why or self._tools is None:
            self.found.taken[why] += 1
            self._session.emit(recorded)
            return None
        self.found.again += 1
        if isinstance(action, CmdRunAction) and action.command.strip() == "status":
            self._tools.wait_for_job(action)
        self._tools.execute(self._paths.in_copy(action), self._session)
        now = self._session.events[recorded.id]
        assert isinstance(now, Observation)
        self._paths.learn(recorded, now)
        before, after = self._normalisers(recorded.timestamp)
        found = difference(action, recorded, now, before, after)
        if found is None and not self._same_bytes(recorded, now):
            told = "what is shown of the file is the same, but its digest differs"
            return Difference(recorded.id, action.message, "", told)
        return found

    def _normalisers(self, then: datetime) -> tuple[Normaliser, Normaliser]:
        """Return one normaliser for what was recorded then, and one for what comes now."""
        copy, own = self._copy, self._context.own
        return (
            Normaliser(self._paths.aliases, copy.session_id, own, then, copy.lent),
            Normaliser(
                self._paths.recorded_names(), copy.session_id, own, datetime.now(UTC), copy.lent
            ),
        )

    def _same_bytes(self, recorded: Observation, now: Observation) -> bool:
        """Whether a file has the same content, apart from the name of its folder."""
        kinds = FileReadObservation | FileWriteObservation | FileEditObservation
        if not (isinstance(recorded, kinds) and isinstance(now, kinds)):
            return True
        known = recorded.digest and now.digest and MASK not in recorded.content
        if recorded.digest == now.digest or not known:
            return True
        assert self._tools is not None
        try:
            data = read_regular(self._tools.file(now.path), follow=True)[0]
        except OSError:
            return False
        for there, here in self._copy.places:
            data = data.replace(here.encode(), there.encode())
        return digest(data) == recorded.digest

    # --- files ------------------------------------------------------------------------------------

    def _is_inside(self, action: Action) -> bool:
        """Whether a file to write is in the copy: nothing outside is written again."""
        path, call = path_of(action), action.tool_call_metadata
        if path is None or call is None or call.function_name not in ("write", "edit"):
            return True
        named = Path(self._paths.mapped(path))
        return not named.is_absolute() or named.is_relative_to(self._copy.top)

    def _files_otherwise(self, checkpoint: CheckpointObservation) -> Difference | None:
        """Return a difference if the files are not as they were. It names the last call that may
        have changed them."""
        self.found.files += 1
        store = self._copy.store
        diff = store.diff(checkpoint.tree, store.take().tree)
        normalisers = self._normalisers(checkpoint.timestamp)
        diff = differing_parts(diff, *normalisers, left_out=self._copy.lent)
        if not diff:
            return None
        answer = self._copy.events[self._plan.compared[checkpoint.id]]
        action = self._actions[answer.cause] if answer.cause is not None else None
        told = action.message if action is not None else ""
        return Difference(answer.id, told, diff, "the files are not as they were after it")

    def _bring(self, tree: str) -> None:
        """Restore the files to what a user, or something that is not repeated, made of them."""
        store = self._copy.store
        now = store.take().tree
        if self._copy.whole:
            store.restore(tree, idle=self._copy.idle)
            return
        paths = [path for path in store.paths(now, tree) if ".git" not in Path(path).parts]
        if paths:
            store.restore(tree, paths)


def _meant(action: Action) -> dict[str, Any]:
    return {"action": action.kind, **action.model_dump(mode="json", exclude=set(COMMON_FIELDS))}
