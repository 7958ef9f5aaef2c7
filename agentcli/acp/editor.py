"""Sends updates and questions to the editor from the threads of sessions, which have no event
loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from typing import Any, TypeVar

from acp.exceptions import RequestError
from acp.helpers import update_tool_call
from acp.interfaces import Client
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    AvailableCommandsUpdate,
    ClientCapabilities,
    ConfigOptionUpdate,
    CurrentModeUpdate,
    ElicitationFormSessionMode,
    PermissionOption,
    ToolCallStart,
    ToolCallStatus,
    ToolCallUpdate,
)

from agentcli import interrupts
from agentcli.acp.updates import Update
from agentcli.errors import TurnInterrupted

T = TypeVar("T")
AnyUpdate = Update | AvailableCommandsUpdate | ConfigOptionUpdate | CurrentModeUpdate

_TICK_S = 0.1


class CannotAsk(Exception):
    """The editor takes no questions; the text says why."""


@dataclass
class Editor:
    """The editor of one connection. `capabilities` are known from its first message on."""

    client: Client
    loop: asyncio.AbstractEventLoop
    capabilities: ClientCapabilities = field(default_factory=ClientCapabilities)

    @property
    def has_forms(self) -> bool:
        elicitation = self.capabilities.elicitation
        return elicitation is not None and elicitation.form is not None

    def tell(self, session_id: str, update: AnyUpdate) -> None:
        """Send an update. Returns once it is written, so an editor that reads slowly slows its
        sessions down. Does nothing if the editor is gone."""
        try:
            self._begin(self.client.session_update(session_id, update)).result()
        except (ConnectionError, RuntimeError, asyncio.CancelledError):
            return

    def choose(
        self, session_id: str, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> str:
        """Return the id of the option that the user chose. Raises TurnInterrupted if they stopped
        the turn instead, CannotAsk."""
        asked = self.client.request_permission(session_id, call, list(options))
        answer = self._answered(asked)
        if isinstance(answer.outcome, AllowedOutcome):
            return answer.outcome.option_id
        raise TurnInterrupted("interrupted", 130)

    def ask_beside(
        self, session_id: str, call: ToolCallUpdate, options: Sequence[PermissionOption]
    ) -> str:
        """Ask as `choose` does, about something that is no call of this session: it is shown as a
        call that ends with the answer."""
        shown = ToolCallStart(
            session_update="tool_call",
            tool_call_id=call.tool_call_id,
            title=call.title or "",
            kind=call.kind,
            status="pending",
            content=call.content,
            locations=call.locations,
        )
        self.tell(session_id, shown)
        status: ToolCallStatus = "failed"
        try:
            chosen = self.choose(session_id, call, options)
            status = "completed"
        finally:
            self.tell(session_id, update_tool_call(call.tool_call_id, status=status))
        return chosen

    def fill_in(self, message: str, form: ElicitationFormSessionMode) -> dict[str, Any] | None:
        """Return what the user wrote into a form; None if they declined. Raises TurnInterrupted,
        CannotAsk."""
        answer = self._answered(self.client.create_elicitation(message, form))
        return answer.content or {} if isinstance(answer, AcceptElicitationResponse) else None

    def _answered(self, request: Coroutine[Any, Any, T]) -> T:
        """Wait for the answer however long it takes, unless this thread is told to stop."""
        future = self._begin(request)
        try:
            while not wait([future], _TICK_S).done:
                interrupts.check()
            return future.result()
        except RequestError as error:
            raise CannotAsk(f"the editor can't ask: {error}") from error
        except (ConnectionError, asyncio.CancelledError) as error:
            raise TurnInterrupted("the editor is gone", 141) from error
        except ValueError as error:
            raise CannotAsk("the editor gave an invalid answer") from error
        finally:
            future.cancel()

    def _begin(self, request: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            return asyncio.run_coroutine_threadsafe(request, self.loop)
        except RuntimeError:
            request.close()
            raise
