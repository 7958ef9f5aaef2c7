"""observation_masking: replaces results older than the newest events with a note."""

from __future__ import annotations

from dataclasses import dataclass

from agentcli.events import Event, Observation
from agentcli.events.actions import CondensationAction, is_user_message
from agentcli.events.observations import (
    BrowserOutputObservation,
    ErrorObservation,
    UserRejectObservation,
)
from agentcli.memory.condenser import CondenserKind, Options, first_saving
from agentcli.memory.projection import masked_event
from agentcli.memory.view import View, ids_of, is_never_dropped

LEAST_CHARS = 400
"""Shorter results are not worth replacing."""
LEAST_SHARE = 0.1
"""Share of all tokens that masking must save to be worth a new prefix."""
_LONG_TOKENS = 100
"""Tokens above which a note in place of a text is likely shorter."""


@dataclass(frozen=True)
class Masking:
    """Masks results of older steps beyond the newest `attention_window` events (with
    `browser_only`: beyond that many pages), once `events_between` new events have come since the
    last time."""

    attention_window: int
    events_between: int
    browser_only: bool = False

    def condense(self, view: View) -> CondensationAction | None:
        enough = view.count > self.attention_window and view.fresh >= self.events_between
        if not (enough or view.due):
            return None
        found = maskable(view)
        if self.browser_only:
            pages = [e for e in view.events if isinstance(e, BrowserOutputObservation)]
            attended = {page.id for page in pages[len(pages) - self.attention_window :]}
            found = [e for e in found if isinstance(e, BrowserOutputObservation)]
        else:
            seen = view.model_visible_events
            newest = seen[max(len(seen) - self.attention_window, 0) :]
            attended = {event.id for event in newest}
        old = [event for event in found if event.id not in attended]
        saved = sum(view.sizes[event.id] for event in old)
        if not old or not (enough or view.forced or saved >= view.tokens * LEAST_SHARE):
            return None
        what = "pages" if self.browser_only else "results"
        return mask(old, f"{len(old)} old {what} masked")


def maskable(view: View) -> list[Event]:
    """Return long results of older steps that are not masked yet, oldest first."""
    old = ids_of(view.old_steps)
    return [
        event
        for event in view.events
        if event.id in old
        and event.cause is not None
        and event.id not in view.masked
        and not isinstance(event, ErrorObservation | UserRejectObservation)
        and is_long(event)
    ]


def is_long(event: Event) -> bool:
    """Whether a note would be shorter than what `event` shows."""
    shows_images = bool(getattr(event, "image_urls", None))
    return shows_images or len(getattr(event, "content", "")) > LEAST_CHARS


def mask(events: list[Event], reason: str) -> CondensationAction:
    return CondensationAction(
        forgotten_event_ids=(),
        masked_event_ids=tuple(sorted(event.id for event in events)),
        reason=reason,
    )


@dataclass(frozen=True)
class MaskLongest:
    """Masks the longest texts wherever they are, the last resort when nothing else can go: results
    that the model has seen, then those it has not, then what calls carry and what the session was
    told, and at last what the user said."""

    def condense(self, view: View) -> CondensationAction | None:
        newest = ids_of(view.steps[-1:])

        def order(event: Event) -> tuple[int, int]:
            rank = 2
            if isinstance(event, Observation) and not is_never_dropped(event):
                rank = 1 if event.id in newest else 0
            elif is_user_message(event):
                rank = 3
            return rank, -saved[event.id]

        saved = {
            event.id: size - view.size(masked_event(event))
            for event in view.events
            if event.id not in view.masked and (size := view.sizes[event.id]) > _LONG_TOKENS
        }
        long = sorted((event for event in view.events if saved.get(event.id, 0) > 0), key=order)
        excess = view.tokens - view.target()
        chosen = first_saving(excess, long, lambda event: saved[event.id])
        return mask(chosen, f"{len(chosen)} of the longest texts masked") if chosen else None


def _make(options: Options) -> Masking:
    window = options.settings.attention_window
    return Masking(window, events_between=max(window // 4, 5))


CONDENSER = CondenserKind(_make)
