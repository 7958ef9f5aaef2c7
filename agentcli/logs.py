"""Where the log of this process goes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any


def log_to(path: Path, redact: Callable[[Any], Any]) -> None:
    """Send the log of this process to the session's own file; it is made when first needed."""

    class Masked(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return str(redact(super().format(record)))

    class Unfailing(logging.FileHandler):
        def emit(self, record: logging.LogRecord) -> None:
            # What can't be logged must not hide what is being told.
            with suppress(OSError):
                super().emit(record)

    handler = Unfailing(path, encoding="utf-8", delay=True)
    handler.setFormatter(Masked("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    # A log that can't be written must not write to the screen instead.
    logging.raiseExceptions = False
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
