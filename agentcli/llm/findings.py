"""What refusals taught of endpoints, kept between sessions: a file for each endpoint and model.

A finding holds for the version of the program that made it: it stands in the place of a whole row
of a table, of which the next version may know more.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from agentcli import __version__
from agentcli.llm.wire_protocol import Endpoint

_KEPT_S = 7 * 24 * 3600
"""A server may learn in the meantime what it refused."""
_LARGEST = 100_000

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Findings:
    """The findings in a folder. One that can't be read or written counts as unknown: the server
    then says it again."""

    folder: Path

    def of(self, endpoint: Endpoint) -> Mapping[str, Any]:
        """Return the changes of an endpoint's traits that are known."""
        try:
            with open(self._path(endpoint), "rb") as file:
                fresh = os.fstat(file.fileno()).st_mtime > time.time() - _KEPT_S
                found = json.loads(file.read(_LARGEST)) if fresh else {}
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(found, dict) or found.get("version") != __version__:
            return {}
        changes = found.get("changes")
        return changes if isinstance(changes, dict) else {}

    def keep(self, endpoint: Endpoint, changes: Mapping[str, Any]) -> None:
        """Add `changes` to what is known of an endpoint."""
        path = self._path(endpoint)
        partial = path.with_name(f"{path.name}.{os.getpid()}")
        changes = {**self.of(endpoint), **changes}
        kept = {"version": __version__, "model": endpoint.name, "changes": changes}
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            partial.write_text(json.dumps(kept), encoding="utf-8")
            partial.replace(path)
        except OSError as error:
            log.warning("what %s refuses can't be kept: %s", endpoint.name, error)

    def _path(self, endpoint: Endpoint) -> Path:
        # An address may hold a secret, so its hash stands for it.
        named = f"{endpoint.base_url}\n{endpoint.provider}\n{endpoint.model}"
        return self.folder / f"{sha256(named.encode(errors='replace')).hexdigest()[:24]}.json"
