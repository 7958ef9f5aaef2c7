"""Runs several turns at once, each on a thread of its own. The main thread stays free for
interrupts and for what only it may do: open and close sessions, ask the user, draw."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from agentcli import interrupts
from agentcli.errors import TurnInterrupted
from agentcli.interrupts import shield

A = TypeVar("A")
T = TypeVar("T")
Call = Callable[[], None]

_TICK_S = 0.1
_PATIENCE_S = 10.0
"""How long threads get to record an interrupt; then they are left behind. What is on record is
consistent at any time."""


class Job(Protocol):
    def open(self, main_thread: MainThreadCalls) -> bool:
        """Prepare, on the main thread. Return False if there is nothing to work on."""

    def work(self) -> None:
        """Do the work, on any thread."""

    def close(self) -> None:
        """Clean up after `work`, on the main thread."""


@dataclass(frozen=True)
class MainThreadCalls:
    """Has the main thread do something on behalf of another one."""

    calls: queue.SimpleQueue[Call]

    def passing_on(self, tell: Callable[[A], None]) -> Callable[[A], None]:
        """Return a function that has the main thread call `tell` some time."""
        return lambda news: self.calls.put(partial(tell, news))

    def now(self, ask: Callable[[], T]) -> T:
        """Return what `ask` returns on the main thread. Raises what it raises, or a stop."""
        answer: Future[T] = Future()

        def call() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)
                # An error belongs to the thread that asked; an interrupt stops the main thread too.
                if not isinstance(error, Exception):
                    raise

        self.calls.put(call)
        while not wait([answer], _TICK_S).done:
            interrupts.check()
        return answer.result()


def run_in_parallel(jobs: Sequence[Job], most: int) -> None:
    """Open, work on and close all `jobs`, at most `most` at once. An interrupt stops each where it
    does no harm, and is raised on; so is the first error of a job, when the running ones are
    done."""
    calls: queue.SimpleQueue[Call] = queue.SimpleQueue()
    waiting = deque(jobs)
    running: dict[threading.Thread, Job] = {}
    errors: list[BaseException] = []
    try:
        while (waiting and not errors) or running:
            interrupts.check()
            while waiting and not errors and len(running) < most:
                job = waiting.popleft()
                with shield():
                    if job.open(MainThreadCalls(calls)):
                        thread = _thread(job, errors)
                        running[thread] = job
                        thread.start()
            _take(calls)
            with shield():
                _close_done(running)
    except TurnInterrupted as interrupt:
        with shield():
            for thread in running:
                interrupts.stop_thread(thread, interrupt)
            until = time.monotonic() + _PATIENCE_S
            while running and time.monotonic() < until:
                next(iter(running)).join(_TICK_S)
                _close_done(running)
        raise
    if errors:
        raise errors[0]


def _thread(job: Job, errors: list[BaseException]) -> threading.Thread:
    def work() -> None:
        try:
            job.work()
        except BaseException as error:
            errors.append(error)

    return threading.Thread(target=work, name="child", daemon=True)


def _take(calls: queue.SimpleQueue[Call]) -> None:
    """Do what the threads ask for; if there is nothing, wait a moment."""
    try:
        calls.get(timeout=_TICK_S)()
        while True:
            calls.get_nowait()()
    except queue.Empty:
        pass


def _close_done(running: dict[threading.Thread, Job]) -> None:
    for thread in [thread for thread in running if not thread.is_alive()]:
        running.pop(thread).close()
