"""Decides where the log of this process goes."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


class _ByThread(logging.Handler):
    """Sends each record to the log file of its thread; see `log_to`."""

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[threading.Thread, logging.Handler] = {}
        self._newest: logging.Handler | None = None

    def use(self, file: logging.Handler) -> None:
        """Make `file` the log of the current thread from now on."""
        for thread in [thread for thread in self._files if not thread.is_alive()]:
            self._files.pop(thread).close()
        self._files[threading.current_thread()] = self._newest = file

    def emit(self, record: logging.LogRecord) -> None:
        at_hand = (threading.current_thread(), threading.main_thread())
        file = next(filter(None, map(self._files.get, at_hand)), self._newest)
        if file is not None:
            file.handle(record)


_by_thread = _ByThread()


def log_to(path: Path, redact: Callable[[Any], Any], *, whole: bool) -> None:
    """Send the log of this thread to the session's own file, which is created when first needed.
    Unless `whole`, only the records of this package go there. Threads without a file of their own
    log to that of the main thread, or else to the newest."""

    class Masked(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return str(redact(super().format(record)))

    class Unfailing(logging.FileHandler):
        def emit(self, record: logging.LogRecord) -> None:
            # A failure to log must not hide the error being reported.
            with suppress(OSError):
                super().emit(record)

    handler = Unfailing(path, encoding="utf-8", delay=True)
    handler.setFormatter(Masked("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    _by_thread.use(handler)
    logger = logging.getLogger(None if whole else "agentcli")
    if whole:
        # Otherwise logging reports its own failures on the screen.
        logging.raiseExceptions = False
    logger.handlers[:] = [_by_thread]
    logger.setLevel(logging.WARNING)
    logger.propagate = whole
