"""What a log that ends anywhere says of the work that was going on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import (
    FileReadAction,
    GlobAction,
    MessageAction,
    RewindAction,
    SearchAction,
)
from agentcli.events.live import newest_first
from agentcli.events.observations import (
    DecisionObservation,
    ErrorObservation,
    GoingBackObservation,
    ReplyDiscardedObservation,
)

_READS = (FileReadAction, SearchAction, GlobAction)


def torn_reply(events: Sequence[Event]) -> str | None:
    """The id of a reply of which only the beginning was written."""
    last = events[-1].reply if events else None
    return last.id if last and last.index < last.total - 1 else None


def open_actions(events: Sequence[Event]) -> list[Action]:
    """Actions of this turn that have no observation, in order."""
    answered: set[int | None] = set()
    discarded: set[str] = set()
    found: list[Action] = []
    for event in newest_first(events):
        if isinstance(event, ReplyDiscardedObservation):
            discarded.add(event.reply_id)
        elif isinstance(event, Observation):
            if not isinstance(event, DecisionObservation):
                answered.add(event.cause)
        elif event.source is Source.USER:
            break
        elif (
            isinstance(event, Action)
            and event.runnable
            and event.id not in answered
            and not (event.reply and event.reply.id in discarded)
        ):
            found.append(event)
    return found[::-1]


def awaits_approval(events: Sequence[Event], action: Action) -> bool:
    """Whether it was asked about and never answered."""
    for event in newest_first(events):
        if isinstance(event, DecisionObservation) and event.cause == action.id:
            return event.decision == "ask"
        if event is action:
            break
    return False


def is_accounted_for(events: Sequence[Event]) -> bool:
    """Whether the action of the newest reply that was being carried out when the process ended
    was told so already, by another process that was killed while it did."""
    for event in newest_first(events):
        if event.reply is not None:
            break
        if isinstance(event, ErrorObservation) and event.error_id == "interrupted":
            return True
    return False


def cut_off(events: Sequence[Event]) -> GoingBackObservation | None:
    """The going back to earlier files that was begun and not brought to its end, if nobody has
    worked in the session since."""
    for event in reversed(events):
        if isinstance(event, GoingBackObservation):
            return event
        said = isinstance(event, MessageAction) and event.source is Source.USER
        if said or isinstance(event, RewindAction) or event.reply is not None:
            return None
    return None


def untold(events: Sequence[Event]) -> str:
    """What the model has yet to be told of a person's going back, after a process that was killed
    before it came to that; empty if nothing."""
    last = events[-1] if events else None
    if isinstance(last, RewindAction):
        return last.told
    return half_way(last) if isinstance(last, GoingBackObservation) else ""


def half_way(begun: GoingBackObservation) -> str:
    """What the model is told of one that was cut off."""
    return (
        f"[The user began to bring files back to an earlier state ({begun.content}), and that was "
        "cut off: some are as they were then, others not. Look before you rely on any.]"
    )


def with_progress(actions: Iterable[Action]) -> Iterable[tuple[Action, bool]]:
    """Each open action, and whether it may have begun: the first, and reads beside it."""
    begun = True
    for index, action in enumerate(actions):
        begun = begun and (index == 0 or isinstance(action, _READS))
        yield action, begun
        begun = begun and isinstance(action, _READS)
