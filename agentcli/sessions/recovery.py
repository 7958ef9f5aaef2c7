"""What a log that breaks off anywhere says about the work in progress. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import dropwhile

from agentcli.events import Action, Event, Observation, Source
from agentcli.events.actions import (
    AgentDelegateAction,
    AskUserAction,
    FileReadAction,
    GlobAction,
    RewindAction,
    SearchAction,
    is_user_message,
)
from agentcli.events.live import newest_first
from agentcli.events.observations import (
    DecisionObservation,
    ErrorObservation,
    ReplyDiscardedObservation,
    RestoreStartedObservation,
)

_READS = (FileReadAction, SearchAction, GlobAction)


def torn_reply(events: Sequence[Event]) -> str | None:
    """Return the id of the last reply if only its beginning was written."""
    last = events[-1].reply if events else None
    return last.id if last and last.index < last.total - 1 else None


def open_actions(events: Sequence[Event]) -> list[Action]:
    """Return the actions of this turn that have no observation, in order."""
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


def without_delegated(actions: Sequence[Action]) -> list[Action]:
    """Return the open actions without leading delegations: an interrupted child continues where its
    own session stopped, so that its work is not done twice."""
    return list(dropwhile(lambda action: isinstance(action, AgentDelegateAction), actions))


def awaits_approval(events: Sequence[Event], action: Action) -> bool:
    """Whether `action` is a question, or approval was asked for it, that was never answered."""
    if isinstance(action, AskUserAction):
        return True
    for event in newest_first(events):
        if isinstance(event, DecisionObservation) and event.cause == action.id:
            return event.decision == "ask"
        if event is action:
            break
    return False


def interruption_was_recorded(events: Sequence[Event]) -> bool:
    """Whether an earlier recovery, itself killed before it finished, has already recorded that the
    kill interrupted the running action."""
    for event in newest_first(events):
        if event.reply is not None:
            break
        if isinstance(event, ErrorObservation) and event.error_id == "interrupted":
            return True
    return False


def unfinished_restore(events: Sequence[Event]) -> RestoreStartedObservation | None:
    """Return the restore of earlier files that was started but not finished, if nobody has worked
    in the session since."""
    for event in reversed(events):
        if isinstance(event, RestoreStartedObservation):
            return event
        said = is_user_message(event)
        if said or isinstance(event, RewindAction) or event.reply is not None:
            return None
    return None


def unsent_restore_message(events: Sequence[Event]) -> str:
    """Return the message about a user's undo or rewind that the model has not received because
    the process was killed first; empty if there is none."""
    last = events[-1] if events else None
    if isinstance(last, RewindAction):
        return last.told
    return partial_restore_message(last) if isinstance(last, RestoreStartedObservation) else ""


def partial_restore_message(begun: RestoreStartedObservation) -> str:
    """Return the message to the model about a restore that was not finished."""
    return (
        f"[The user began to bring files back to an earlier state ({begun.content}), and that was "
        "cut off: some are as they were then, others not. Look before you rely on any.]"
    )


def with_may_have_begun(actions: Iterable[Action]) -> Iterable[tuple[Action, bool]]:
    """Yield each open action and whether it may have begun: the first one, and reads beside it."""
    begun = True
    for index, action in enumerate(actions):
        begun = begun and (index == 0 or isinstance(action, _READS))
        yield action, begun
        begun = begun and isinstance(action, _READS)
