"""Plan which calls of a session are repeated to verify it, and which results are taken from its
record; map its paths to the copy in which they are repeated."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentcli.events import Action, Event, Observation
from agentcli.events.actions import CmdRunAction, RewindAction, ToolCallAction, is_user_message
from agentcli.events.base import COMMON_FIELDS
from agentcli.events.observations import (
    CheckpointObservation,
    CmdOutputObservation,
    DecisionObservation,
    ErrorObservation,
    UserRejectObservation,
)
from agentcli.security.redact import MASK

REPLAYED_TOOLS = frozenset(
    ("bash", "python", "read", "write", "edit", "grep", "glob", "todo", "think", "finish", "recall")
)
"""Tools whose calls are repeated. They reach nothing but the copy: by sandboxed commands, or by the
session's own view of files."""
_WHY_NOT_REPLAYED = {
    "ask": "answers of the user",
    "delegate": "work of children",
    "fetch": "pages",
    "browse_interactive": "pages",
    "memory": "notes",
    "session_search": "other sessions",
    "llm_edit": "edits merged by a model",
}
_OF_SERVERS = "tools of servers and packages"
_NOT_RUN = {"interrupted": "interrupted calls", "not_run": "calls that were not run"}
_CUT_OFF = re.compile(r"\[(?:interrupted by the user|stopped: [^\]\n]*)\]\Z")
"""The end of the output of a call that was interrupted or reached its time limit."""
_CHANGES_FILES = frozenset(("bash", "python", "write", "edit"))
_CHANGES_NOTHING = REPLAYED_TOOLS - _CHANGES_FILES | _WHY_NOT_REPLAYED.keys() - {
    "delegate",
    "llm_edit",
}


def why_not_replayed(action: Action, observation: Observation) -> str:
    """Return why the result of `action` is taken from the record, in words that fit before a count;
    "" if the action is repeated."""
    call = action.tool_call_metadata
    assert call is not None
    if isinstance(observation, UserRejectObservation):
        return "refused calls"
    if isinstance(observation, ErrorObservation) and observation.error_id in _NOT_RUN:
        return _NOT_RUN[observation.error_id]
    if _CUT_OFF.search(observation.content):
        return _NOT_RUN["interrupted"]
    if MASK in call.raw_arguments:
        return "calls with a secret in them"
    if isinstance(action, CmdRunAction):
        return _why_command_not_replayed(action, observation)
    if isinstance(action, ToolCallAction) and action.error is not None:
        return ""
    name = call.function_name
    return "" if name in REPLAYED_TOOLS else _WHY_NOT_REPLAYED.get(name, _OF_SERVERS)


def _why_command_not_replayed(action: CmdRunAction, observation: Observation) -> str:
    if action.network or action.unsandboxed:
        return "commands beyond the sandbox"
    if not isinstance(observation, CmdOutputObservation):
        return ""
    if observation.metadata.timed_out:
        return "commands that ran out of time"
    if action.job is not None and observation.metadata.exit_code is None:
        return "looks at jobs that were at work"
    return ""


def is_changing(action: Action) -> bool:
    """Whether repeating the action may change files of the workspace."""
    call = action.tool_call_metadata
    return call is not None and call.function_name in _CHANGES_FILES


@dataclass
class _Span:
    """What happened between two consecutive snapshots. A snapshot is taken before the first call
    of a step that may change files, so only one step can have changed any: `step` is the id of its
    reply, "" if there is none, None if it isn't known. `changing` are the results of repeated
    calls that may have changed files, `taken` those of calls from the record, `said` the user's
    messages."""

    hooked: bool
    step: str | None = ""
    changing: list[int] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    said: list[int] = field(default_factory=list)

    def may_change(self, action: Action) -> bool:
        reply = action.reply.id if action.reply else None
        return self.step is None or self.step == reply

    def place(self, at: int) -> int | None:
        """Return after which event the files are set to those of the later snapshot, taken at
        event `at`; None if the repeated calls should produce them."""
        if self.hooked and self.changing:
            return max(self.changing + self.taken)
        if self.taken:
            return at if self.changing and self.changing[-1] > self.taken[0] else self.taken[-1]
        if self.changing:
            return None
        return self.said[0] if self.said else at


@dataclass(frozen=True)
class ReplayPlan:
    """`restored`: by event, the snapshot to which the files are restored after it, since a user
    or a call that isn't repeated made them so. `compared`: by the event that names a snapshot, the
    result of the last call that made the files so."""

    restored: dict[int, str]
    compared: dict[int, int]


def plan_replay(
    events: Sequence[Event],
    start: str,
    may_write: Callable[[Action], bool] = lambda action: True,
    *,
    hooked: bool = False,
) -> ReplayPlan:
    """Return the plan for a session's events. `start` is the snapshot that the copy begins as,
    `may_write` says whether the file that an action names lies in the copy, `hooked` whether hooks
    of the user ran around calls and may have changed files."""
    restored: dict[int, str] = {}
    compared: dict[int, int] = {}
    actions: dict[int, Action] = {}
    waiting: dict[int, Action] = {}
    known, span = start, _Span(hooked)
    for event in events:
        if isinstance(event, Action):
            actions[event.id] = event
            if event.runnable and event.tool_call_metadata is not None:
                waiting[event.id] = event
            if is_user_message(event):
                span.said.append(event.id)
        if isinstance(event, RewindAction) and event.tree is not None:
            restored[event.id] = known = event.tree
            span = _Span(hooked)
        elif isinstance(event, CheckpointObservation) and not event.tree:
            span.step = None
        elif isinstance(event, CheckpointObservation):
            place = span.place(event.id)
            if place is None:
                compared[event.id] = span.changing[-1]
            elif event.tree != known:
                restored[place] = event.tree
            known, span = event.tree, _Span(hooked, _step_of(waiting, event))
        elif (action := answered_call(event, actions)) is not None:
            assert isinstance(event, Observation)
            waiting.pop(action.id, None)
            if span.may_change(action):
                _note(span, action, event, may_write(action))
    return ReplayPlan(restored, compared)


def _step_of(waiting: Mapping[int, Action], checkpoint: CheckpointObservation) -> str | None:
    """Return the id of the reply whose first call that may change files comes next."""
    if checkpoint.moment != "before_step":
        return ""
    first = next(iter(waiting.values()), None)
    return first.reply.id if first is not None and first.reply else None


def _note(span: _Span, action: Action, observation: Observation, inside: bool) -> None:
    again = inside and not why_not_replayed(action, observation)
    if again and is_changing(action):
        span.changing.append(observation.id)
    elif not again and _may_have_changed(action, observation):
        span.taken.append(observation.id)


def answered_call(event: Event, actions: dict[int, Action]) -> Action | None:
    """Return the tool call that `event` is the result of."""
    if not isinstance(event, Observation) or isinstance(event, DecisionObservation):
        return None
    action = actions.get(-1 if event.cause is None else event.cause)
    return action if action is not None and action.tool_call_metadata is not None else None


def _may_have_changed(action: Action, observation: Observation) -> bool:
    """Whether a call that isn't repeated may have changed files."""
    not_run = isinstance(observation, ErrorObservation) and observation.error_id == "not_run"
    call = action.tool_call_metadata
    if call is None or not_run or isinstance(observation, UserRejectObservation):
        return False
    return call.function_name not in _CHANGES_NOTHING


def first_snapshot(events: Sequence[Event]) -> str:
    """Return the snapshot of the files before anything changed them; "" if none was kept."""
    kept = (e.tree for e in events if isinstance(e, CheckpointObservation) and e.tree)
    return next(kept, "")


class PathMap:
    """Maps paths of a session to its copy and back. `places` are pairs of a folder's path in the
    session and in the copy. If several paths lead to one folder, the first is the way back."""

    def __init__(self, places: Sequence[tuple[str, str]]) -> None:
        # A folder's path, alone or as the beginning of a path in it.
        self._places = [
            (re.compile(rf"(?<![\w.-]){re.escape(there)}(?![\w-]|\.\w)"), here)
            for there, here in places
        ]
        self._back: dict[str, str] = {}
        for there, here in places:
            self._back.setdefault(here, there)
        self.aliases = [
            (there, self._back[here]) for there, here in places if self._back[here] != there
        ]
        """Pairs of another name that the session had for a folder and the one in `recorded_names`:
        the log of a fork has the original's folder too."""
        self._outputs: dict[str, str] = {}
        """The names of files with kept outputs: in the session, then in the copy."""

    def recorded_names(self) -> list[tuple[str, str]]:
        """Return pairs of a name in the copy and the session's name for the same."""
        return [*self._back.items(), *((now, then) for then, now in self._outputs.items())]

    def learn(self, recorded: Observation, now: Observation) -> None:
        """Note the name of the file that keeps a command's output, in both runs."""
        if isinstance(recorded, CmdOutputObservation) and isinstance(now, CmdOutputObservation):
            then, here = recorded.metadata.full_output_path, now.metadata.full_output_path
            if then and here:
                self._outputs[Path(then).name] = Path(here).name

    def in_copy(self, action: Action) -> Action:
        """Return `action` with the paths of the copy."""
        call = action.tool_call_metadata
        assert call is not None
        try:
            arguments = json.loads(call.raw_arguments or "{}")
        except (ValueError, RecursionError):
            return action
        mapped = self.mapped(arguments)
        if mapped == arguments:
            return action
        own = type(action).model_fields.keys() - COMMON_FIELDS
        fields = {name: self.mapped(getattr(action, name)) for name in own}
        metadata = call.model_copy(update={"raw_arguments": json.dumps(mapped)})
        return action.model_copy(update={"tool_call_metadata": metadata, **fields})

    def mapped(self, value: Any) -> Any:
        """Return a JSON value with the paths of the copy, at any depth."""
        if isinstance(value, str):
            for pattern, here in self._places:
                value = here.join(pattern.split(value))
            for then, now in self._outputs.items():
                value = value.replace(then, now)
            return value
        if isinstance(value, dict):
            return {key: self.mapped(item) for key, item in value.items()}
        return [self.mapped(item) for item in value] if isinstance(value, list) else value
