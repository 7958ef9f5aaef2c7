"""Several turns at once, each on a thread of its own, while the main thread stays free to be
interrupted and does what only it may do: open and close sessions, ask the person, draw."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import Protocol, TypeVar

from agentcli import interrupts
from agentcli.errors import TurnInterrupted
from agentcli.interrupts import shield

T = TypeVar("T")
Call = Callable[[], None]

_TICK_S = 0.1
_PATIENCE_S = 10.0
"""For threads to account for an interrupt. Nobody waits for more; what is recorded is whole."""


class Job(Protocol):
    def open(self, on_main: OnMain) -> bool:
        """On the main thread. False when there is nothing to be worked on."""

    def work(self) -> None:
        """On any thread."""

    def close(self) -> None:
        """On the main thread, after `work`."""


class OnMain:
    """Has the main thread do something for another one."""

    def __init__(self, calls: queue.SimpleQueue[Call]) -> None:
        self._calls = calls

    def later(self, call: Call) -> None:
        self._calls.put(call)

    def now(self, ask: Callable[[], T]) -> T:
        """What `ask` returns. Raises what it raises, and what stops this thread."""
        answer: Future[T] = Future()

        def call() -> None:
            try:
                answer.set_result(ask())
            except BaseException as error:
                answer.set_exception(error)
                # What is a fault belongs to who asked; an interrupt is the main thread's too.
                if not isinstance(error, Exception):
                    raise

        self._calls.put(call)
        while not wait([answer], _TICK_S).done:
            interrupts.check()
        return answer.result()


def run_side_by_side(jobs: Sequence[Job], most: int) -> None:
    """Open, work on and close all `jobs`, at most so many at once. An interrupt stops each of them
    where it can bear it, and goes on; so does the first error of one, when the others are done."""
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
                    if job.open(OnMain(calls)):
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
    """What the threads ask for, or a moment of waiting."""
    try:
        calls.get(timeout=_TICK_S)()
        while True:
            calls.get_nowait()()
    except queue.Empty:
        pass


def _close_done(running: dict[threading.Thread, Job]) -> None:
    for thread in [thread for thread in running if not thread.is_alive()]:
        running.pop(thread).close()
