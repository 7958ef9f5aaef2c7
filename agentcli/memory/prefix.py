"""Whether each request begins with the one before, so that the provider's prompt cache applies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import takewhile

from agentcli.events import Event
from agentcli.events.actions import CondensationAction, RewindAction, SystemMessageAction
from agentcli.events.conversation import newest, newest_first
from agentcli.events.observations import (
    PrefixChangedObservation,
    RequestAdaptedObservation,
    SessionStartedObservation,
)
from agentcli.messages import Message, Request, Role, ToolSchema, common_start

_EXCUSES = (CondensationAction, RewindAction, RequestAdaptedObservation)


class PrefixCheck:
    """Compares the successive requests of one session, messages by identity, so that no text is
    read twice. The first request of a process is compared with what the session stored."""

    def __init__(self) -> None:
        self._begun = False
        self._taken = 0
        self._system = ""
        self._tools: Sequence[ToolSchema] = ()
        self._messages: list[Message] = []

    def change(self, request: Request, events: Sequence[Event]) -> PrefixChangedObservation | None:
        """Return what differs in `request` from the one before it, to be recorded before it is
        sent; None if the request only continues that one, or starts afresh after a condensation or
        a rewind."""
        same = common_start(self._messages, request.messages)
        if self._begun:
            changed = self._compare(request, same, events[self._taken :])
        else:
            changed = _since_stored(request, events)
        sent = len(self._messages)
        self._begun = True
        self._taken = len(events)
        self._system, self._tools = _system(request), request.tools
        self._messages[same:] = request.messages[same:]
        if changed is None:
            return None
        place = f" of {sent}" if changed.startswith("message") else ""
        return PrefixChangedObservation(
            changed=changed,
            content=f"{changed}{place} differs from the request before: "
            "the provider's prompt cache is lost from there on",
        )

    def _compare(self, request: Request, same: int, new: Iterable[Event]) -> str | None:
        if _system(request) != self._system:
            return "system"
        if request.tools is not self._tools and request.tools != self._tools:
            return "tools"
        excused = any(isinstance(event, _EXCUSES) for event in new)
        return None if excused or same == len(self._messages) else f"message {same + 1}"


def _since_stored(request: Request, events: Sequence[Event]) -> str | None:
    """Return what differs from what an earlier process must have sent, if there was one."""
    asked = next((e for e in newest_first(events) if e.begins_main_reply), None)
    if asked is None or asked.llm_metrics is None:
        return None
    stored = next((e for e in events if isinstance(e, SystemMessageAction)), None)
    if stored is not None and _system(request) != stored.content:
        return "system"
    if stored is not None and [asdict(tool) for tool in request.tools] != list(stored.tools):
        return "tools"
    started = newest(events, SessionStartedObservation)
    return None if started and started.model == asked.llm_metrics.model else "model"


def _system(request: Request) -> str:
    system = takewhile(lambda message: message.role is Role.SYSTEM, request.messages)
    return "\n\n".join(message.content for message in system)
