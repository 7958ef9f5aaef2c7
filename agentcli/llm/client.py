"""ModelClient.complete: getting one reply, with retries, while staying open to interrupts.

All retries happen here; whether another model should try is up to the caller.
"""

from __future__ import annotations

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from agentcli import interrupts
from agentcli.errors import ConfigError, LLMError, LLMErrorKind, TryAgainLater, TurnInterrupted
from agentcli.events import Event, Progress
from agentcli.events.observations import AgentStateChangedObservation, RequestAdaptedObservation
from agentcli.events.progress import Notice, ReplyAbandoned, Status
from agentcli.llm.catalog import Catalog
from agentcli.llm.provider import Facts
from agentcli.llm.spending import CallBudget, charged
from agentcli.llm.wire_protocol import StillAlive, StreamItem, WireProtocol, broken_off
from agentcli.messages import Reply, Request, Usage

if TYPE_CHECKING:
    from agentcli.llm.healing import Remedy
    from agentcli.settings import LLMSettings

_TICK_S = 0.1
_MOST_REMEDIES = 12
"""For one reply: a request has no more members that may be refused one after the other."""
log = logging.getLogger(__name__)


class _Stalled(LLMError):
    """Nothing arrived for too long; the connection is no longer usable."""


@dataclass
class ModelClient:
    """One model at one endpoint; the catalog prices its replies. `with_new_key` builds the protocol
    again with a key that `protocol` does not have, or returns None if there is no other key. It may
    raise ConfigError. `keep` is told what refusals teach of the endpoint; `look` returns what its
    server says of the model, and is called once, before the first request."""

    protocol: WireProtocol
    model: str
    settings: LLMSettings
    catalog: Catalog
    with_new_key: Callable[[], WireProtocol | None] = lambda: None
    keep: Callable[[Mapping[str, Any]], None] = lambda changes: None
    look: Callable[[], Facts] = Facts
    _looked: bool = field(default=False, init=False)
    _learned: dict[str, Any] = field(default_factory=dict, init=False)
    _connecting: threading.Thread | None = field(default=None, init=False)
    _connect_error: BaseException | None = field(default=None, init=False)
    _prices_loaded: bool = field(default=False, init=False)

    def warm_up(self) -> None:
        """Connect in the background, so that the SDK loads while other things are prepared."""

        def connect() -> None:
            try:
                self.protocol.connect()
            except BaseException as error:
                self._connect_error = error

        self._connecting = threading.Thread(target=connect, daemon=True)
        self._connecting.start()

    def complete(
        self,
        request: Request,
        notify: Callable[[Progress], None],
        call_budget: CallBudget,
        record: Callable[[Event], Event],
    ) -> Reply:
        """Return a complete reply that stays within `call_budget`; `record` stores that a
        provider's rate limit had to be waited for. Raises LLMError when no reply can be had,
        ConfigError when the cost is limited but the price is unknown."""
        attempt = 0
        may_renew = True
        remedied: set[str] = set()
        self._look(notify)
        while True:
            affordable, most_usd = request, 0.0
            if call_budget.left_usd is not None:
                size = self.protocol.body_bytes(request)
                affordable, most_usd = call_budget.within(request, self.model, size, self.catalog)
            started = time.monotonic()
            try:
                reply = self._attempt(affordable, notify, started)
                cost_usd = charged(self.catalog, self.model, reply.usage, most_usd)
                if call_budget.left_usd is not None:
                    call_budget.left_usd -= cost_usd or 0.0
                return replace(
                    reply, model=self.model, latency_s=time.monotonic() - started, cost_usd=cost_usd
                )
            except TurnInterrupted:
                call_budget.charge_abandoned(most_usd)
                raise
            except LLMError as error:
                call_budget.charge_failed(error, most_usd)
                notify(ReplyAbandoned(error.message))
                key_refused = error.kind in (LLMErrorKind.AUTH, LLMErrorKind.AUTH_PERMANENT)
                if may_renew and key_refused and self._renew_key(error):
                    may_renew = False
                    continue
                if remedy := self._remedy(error, affordable, remedied, record):
                    request = remedy.applied(request)
                    continue
                attempt += 1
                self._refuse_long_wait(error)
                if not error.retryable or attempt > self.settings.retries:
                    raise
                self._wait(error, attempt, notify, record)

    def _look(self, notify: Callable[[Progress], None]) -> None:
        if self._looked:
            return
        self._looked = True
        facts = self.look()
        if facts.changes:
            self._learn(facts.changes)
        if facts.message:
            notify(Notice(facts.message))

    def _remedy(
        self,
        error: LLMError,
        sent: Request,
        remedied: set[str],
        record: Callable[[Event], Event],
    ) -> Remedy | None:
        """Return a remedy for what the server refuses, if there is one that was not tried for this
        reply, and record it; what it teaches of the endpoint holds from now on."""
        remedy = self.protocol.remedy(error, sent)
        if remedy is None or remedy.cause in remedied or len(remedied) >= _MOST_REMEDIES:
            return None
        remedied.add(remedy.cause)
        if remedy.changes:
            self._learn(remedy.changes)
            self.keep(remedy.changes)
        record(
            RequestAdaptedObservation(
                model=self.model,
                reason=remedy.cause,
                drops=remedy.drops,
                content=remedy.message,
                reply_tokens=remedy.room_tokens,
            )
        )
        return remedy

    def _learn(self, changes: Mapping[str, Any]) -> None:
        self._learned |= changes
        self.protocol.learn(changes)

    def _attempt(
        self, request: Request, notify: Callable[[Progress], None], started: float
    ) -> Reply:
        """Make one request on a worker thread, so that this thread can be interrupted."""
        inbox: queue.SimpleQueue[StreamItem | BaseException] = queue.SimpleQueue()
        given_up = threading.Event()
        worker = threading.Thread(target=self._work, args=(request, inbox, given_up), daemon=True)
        first_s = 0.0
        try:
            worker.start()
            for item in self._receive(inbox, notify):
                first_s = first_s or time.monotonic() - started
                if isinstance(item, Reply):
                    return replace(item, time_to_first_token_s=first_s)
                if not isinstance(item, StillAlive):
                    notify(item)
        except (TurnInterrupted, _Stalled):
            # Closing the connection ends the worker even if it hangs in a read; the next attempt
            # opens a new one. Without a connection yet, the worker sends no request.
            given_up.set()
            self.protocol.abort()
            self._connecting = None
            raise
        raise broken_off()

    def _work(
        self,
        request: Request,
        inbox: queue.SimpleQueue[StreamItem | BaseException],
        given_up: threading.Event,
    ) -> None:
        try:
            self._ensure_connected()
            if given_up.is_set():
                return
            for item in self.protocol.answer(request):
                inbox.put(item)
        except BaseException as error:
            inbox.put(error)

    def _receive(
        self,
        inbox: queue.SimpleQueue[StreamItem | BaseException],
        notify: Callable[[Progress], None],
    ) -> Iterator[StreamItem]:
        limit = self.settings.first_byte_s
        deadline = time.monotonic() + limit
        while True:
            interrupts.check()
            try:
                item = inbox.get(timeout=_TICK_S)
            except queue.Empty:
                if not self._prices_loaded:
                    # Nobody waits for them now.
                    self._prices_loaded = True
                    self.catalog.cost(self.model, Usage())
                if time.monotonic() > deadline:
                    raise _Stalled(
                        LLMErrorKind.STALLED, f"the model sent nothing for {limit:.0f} s"
                    ) from None
                notify(Status("thinking"))
                continue
            if isinstance(item, LLMError):
                raise item
            if isinstance(item, Exception):
                log.debug("the provider failed", exc_info=item)
                raise self.protocol.translate(item) from item
            if isinstance(item, BaseException):
                raise item
            yield item
            limit = self.settings.gap_s
            deadline = time.monotonic() + limit

    def _refuse_long_wait(self, error: LLMError) -> None:
        """Raise TryAgainLater when the server asks for a longer wait than the settings allow."""
        wait = error.retry_after
        if error.retryable and wait is not None and wait > self.settings.retry_after_longest_s:
            when = datetime.now().astimezone() + timedelta(seconds=wait)
            form = "%H:%M" if wait < 86_400 else "%Y-%m-%d %H:%M"
            from agentcli.llm.failures import wait_text

            raise TryAgainLater(
                error.kind,
                f"{error.message}; the server asks to wait {wait_text(wait)}",
                status=error.status,
                retry_after=wait,
                hint=f"resume after {when:{form}}",
            ) from error

    def _wait(
        self,
        error: LLMError,
        attempt: int,
        notify: Callable[[Progress], None],
        record: Callable[[Event], Event],
    ) -> None:
        limited = error.kind is LLMErrorKind.RATE_LIMIT
        if limited:
            record(
                AgentStateChangedObservation(
                    agent_state="rate_limited", reason=str(error.kind), content=error.message
                )
            )
        wait = error.retry_after
        until = time.monotonic() + (backoff(self.settings, attempt) if wait is None else wait)
        detail = f"{error.message} (retry {attempt} of {self.settings.retries})"
        while (left := until - time.monotonic()) > 0:
            interrupts.check()
            notify(Status("retrying", detail, left))
            time.sleep(min(_TICK_S, left))
        if limited:
            record(AgentStateChangedObservation(agent_state="running", reason="retry"))

    def _renew_key(self, refused: LLMError) -> bool:
        """Switch to a new key, if there is another one than the refused key; return whether there
        is."""
        try:
            protocol = self.with_new_key()
        except ConfigError as error:
            refused.hint = error.message
            return False
        if protocol is None:
            return False
        self.protocol.abort()
        self.protocol = protocol
        protocol.learn(self._learned)
        self._connecting = None
        return True

    def _ensure_connected(self) -> None:
        if self._connecting is None:
            self._connecting = threading.current_thread()
            self._connect_error = None
            self.protocol.connect()
        elif self._connecting is not threading.current_thread():
            self._connecting.join()
        if self._connect_error is not None:
            raise self._connect_error


def backoff(settings: LLMSettings, attempt: int) -> float:
    """Return the seconds before retry `attempt` (from 1): doubling, randomly shortened by up to
    half."""
    longest = min(settings.retry_longest_s, settings.retry_base_s * 2.0 ** (attempt - 1))
    return longest * random.uniform(0.5, 1.0)
