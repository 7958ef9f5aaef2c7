"""old_results: replaces results of no further use with a note, then old and long ones."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.events import Event, Observation
from agentcli.events.actions import CondensationAction
from agentcli.events.observations import (
    ErrorObservation,
    FileEditObservation,
    FileReadObservation,
    FileWriteObservation,
    UserRejectObservation,
)
from agentcli.memory.condenser import CondenserKind, first_saving
from agentcli.memory.condensers.observation_masking import LEAST_SHARE, mask, maskable
from agentcli.memory.projection import MAX_ARGUMENT_CHARS
from agentcli.memory.view import View, ids_of

_STEPS_OF_INTEREST = 8
"""How many of the newest steps have results that are likely still in use."""
_NOTE_TOKENS = 40


@dataclass(frozen=True)
class OldResults:
    """Masks results when the window must be shorter, until it is short enough: first the arguments
    of refused calls and files as they were before a later change, then repeated results, then old
    ones, the longest first."""

    def condense(self, view: View) -> CondensationAction | None:
        if not view.due or view.target() <= 0:
            # All old steps will go, so notes would have no place.
            return None
        found = maskable(view)
        repeated = _repeated(view, found)
        interest = view.steps[-_STEPS_OF_INTEREST:]
        still_used = {event_id for step in interest for event_id in step.event_ids}
        done_with = [e for e in found if e.id not in still_used]
        stale = _stale(view, done_with)
        old = sorted(done_with, key=lambda event: view.sizes[event.id], reverse=True)
        ordered = {event.id: event for event in [*_never_run(view), *stale, *repeated, *old]}

        def saves(event: Event) -> int:
            return max(view.sizes[event.id] - _NOTE_TOKENS, 0)

        chosen = first_saving(view.tokens - view.target(), ordered.values(), saves)
        if sum(map(saves, chosen)) < view.tokens * LEAST_SHARE:
            return None
        return mask(chosen, f"{view.decision.reason}; {len(chosen)} old results masked")


def _never_run(view: View) -> list[Event]:
    """Return old calls with long arguments that were refused."""
    old = ids_of(view.old_steps)
    refused = {
        event.cause
        for event in view.events
        if isinstance(event, UserRejectObservation)
        or (isinstance(event, ErrorObservation) and event.error_id == "not_run")
    }
    return [
        event
        for event in view.events
        if event.id in old
        and event.id in refused
        and event.id not in view.masked
        and event.tool_call_metadata is not None
        and len(event.tool_call_metadata.raw_arguments) > 2 * MAX_ARGUMENT_CHARS
    ]


def _stale(view: View, found: list[Event]) -> list[Event]:
    """Return those of `found` that show a file as it was before this session changed it."""
    changed: dict[str, int] = {}
    for event in view.events:
        if isinstance(event, FileEditObservation | FileWriteObservation):
            changed[event.path] = event.id
    return [
        event
        for event in found
        if isinstance(event, FileReadObservation) and changed.get(event.path, -1) > event.id
    ]


def _repeated(view: View, found: list[Event]) -> list[Event]:
    """Return those of `found` that a later event repeats: the same call with the same result, or
    the same lines of a file read again."""
    newest: set[object] = set()
    repeated: list[Event] = []
    candidates = {event.id for event in found}
    for event in reversed(view.events):
        if not isinstance(event, Observation) or event.cause is None or event.id in view.masked:
            continue
        key = _shown(event)
        if key in newest and event.id in candidates:
            repeated.append(event)
        newest.add(key)
    return repeated


def _shown(event: Observation) -> object:
    if isinstance(event, FileReadObservation):
        return (event.kind, event.path, event.lines_shown)
    return (event.kind, event.content)


CONDENSER = CondenserKind(lambda options: OldResults())
