"""Does a recorded session again: carries out its calls in a copy, and compares each result with the
recorded one. Decisions (of the model, the policy, the user) are taken from the record, and so is
what can't be repeated; see docs/records.md."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from agentcli.app.replay.replay_copy import ReplayCopy
from agentcli.app.replay.replay_tools import ReplayContext, ReplayTools, replay_containment
from agentcli.app.resume import system_message
from agentcli.events import Action, Event, Observation
from agentcli.events.actions import CmdRunAction, path_of
from agentcli.events.base import COMMON_FIELDS
from agentcli.events.observations import (
    CheckpointObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    SessionStartedObservation,
)
from agentcli.replay.compare import Difference, difference
from agentcli.replay.file_changes import differing_parts
from agentcli.replay.normalise import Normaliser
from agentcli.replay.path_map import PathMap
from agentcli.replay.plan import answered_call, plan_replay, why_not_replayed
from agentcli.sandbox.selection import NO_LAYER
from agentcli.security.redact import MASK
from agentcli.sessions.session import Session
from agentcli.workspace.private import read_regular
from agentcli.workspace.text import digest


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
        session = Session.create(copy.own / "sessions" / copy.session_id)
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

    def __init__(self, copy: ReplayCopy, context: ReplayContext, session: Session) -> None:
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
            Normaliser(self._paths.aliases(), copy.session_id, own, then, copy.lent),
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
