"""Results of checks on a session's snapshots, kept with the session so that none is run twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentcli.app.checks.check import CheckResult
from agentcli.workspace.private import dump_json, locked, read_private

_FILE = "checks.json"
_MOST = 500
"""Number of results; the oldest make way."""
_MOST_BYTES = 10_000_000


@dataclass(frozen=True)
class KeptChecks:
    """The results for the session in `folder`. `held` says how the check is contained, since the
    result depends on what it can reach. A file that is damaged or of another version counts as
    empty."""

    folder: Path
    held: str

    @property
    def _path(self) -> Path:
        return self.folder / _FILE

    def results(self, tree: str, command: str, limit_s: float) -> list[CheckResult]:
        """Return results of earlier runs that had at least the time that `limit_s` allows."""
        return [
            result
            for entry in self._entries()
            if (entry["tree"], entry["held"]) == (tree, self.held)
            and (result := CheckResult(**entry["result"])).command == command
            and (result.exit_code is not None or result.duration_s >= limit_s)
        ]

    def add(self, tree: str, result: CheckResult) -> None:
        """Keep a result. If it can't be written, the check is simply run again next time."""
        with suppress(OSError), locked(self._path):
            new = {"tree": tree, "held": self.held, "result": asdict(result)}
            dump_json(self._path, [*self._entries(), new][-_MOST:])

    def _entries(self) -> Iterator[dict[str, Any]]:
        try:
            entries = json.loads(read_private(self._path, _MOST_BYTES) or b"[]")
        except ValueError:
            return
        for entry in entries if isinstance(entries, list) else ():
            with suppress(TypeError, KeyError):
                CheckResult(**entry["result"])
                yield {name: entry[name] for name in ("tree", "held", "result")}
