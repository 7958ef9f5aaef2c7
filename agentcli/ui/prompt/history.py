"""The input history of earlier conversations, for the arrow keys and Ctrl-R."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterable
from pathlib import Path

from prompt_toolkit.history import History

log = logging.getLogger(__name__)
_MOST_BYTES = 2_000_000
_KEPT = 1_000
_LONGEST = 20_000
"""Most characters of one entry; a longer one was pasted, and can be found in its session."""


class SharedHistory(History):
    """A file with a line of JSON for each entry, shared by all conversations of a user. `to_keep`
    removes from a line what must not be saved."""

    def __init__(self, path: Path, to_keep: Callable[[str], str]) -> None:
        super().__init__()
        self._path = path
        self._to_keep = to_keep

    def load_history_strings(self) -> Iterable[str]:
        """Yield the entries, newest first."""
        try:
            with open(self._path, "rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - _MOST_BYTES))
                lines = file.read().split(b"\n")
        except OSError:
            return
        before = None
        for line in lines[: -_KEPT - 1 : -1]:
            try:
                entry = json.loads(line)
            except ValueError:
                continue
            if isinstance(entry, str) and entry != before:
                before = entry
                yield entry

    def store_string(self, string: str) -> None:
        kept = self._to_keep(string)
        if not kept.strip() or len(kept) > _LONGEST:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(self._path, flags, 0o600), "ab") as file:
                file.write(json.dumps(kept).encode() + b"\n")
        except OSError as error:
            log.warning("the history was not saved: %s", error)
