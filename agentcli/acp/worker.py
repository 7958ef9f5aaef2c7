"""A thread that makes the calls it is given, one after another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import TypeVar

T = TypeVar("T")


class Worker:
    """A thread that makes calls until `end`. It lives that long because sandboxed processes end
    with the thread that started them. It is a daemon, so that a call that hangs does not keep the
    process from ending."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def do(self, call: Callable[[], T]) -> Future[T]:
        """Make `call` on the thread; return a future of its result."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        self._calls.put(run)
        return future

    def end(self) -> None:
        """End the thread once all calls are made."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
