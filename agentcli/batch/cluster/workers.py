"""Workers that are machines of a Ray cluster."""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from agentcli.batch.cluster.requirements import environment
from agentcli.batch.folders import BatchFolders
from agentcli.batch.line_program import LineProgram
from agentcli.batch.task import Order, Report
from agentcli.errors import ConfigError, SessionError
from agentcli.interrupts import shield

_ANSWER_S = 5.0
_JOIN_LIMIT_S = 60.0
_LOOK_LIMIT_S = 150.0
"""How long machines have to say whether they are fit; the driver waits 120 s of it."""
_PAUSE_S = 0.5
_PATIENCE_S = 40.0
"""How long machines have to stop their tasks. What is recorded is whole in any case."""


def require_reachable(address: str) -> None:
    """Raise ConfigError if it can be told at once that the cluster can't be used."""
    if find_spec("ray") is None:
        raise ConfigError("Ray is not installed here", hint="pip install 'agentcli[ray]'")
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if "://" in address or not colon or not port.isdecimal():
        raise ConfigError(
            f"--ray {address}: it is HOST:PORT of the cluster's head, or auto",
            hint="ray start --head tells it; ray:// addresses are not for this",
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER_S).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"no Ray cluster answers at {address}: {error}",
            hint="ray status tells where one is; its head is started with ray start --head",
        ) from error


class RayWorkers:
    """The machines of the cluster at `address` (`HOST:PORT` or `auto`), for the batch in `folders`.
    `most` limits the tasks at once; None: as many as it has CPUs."""

    def __init__(
        self,
        address: str,
        most: int | None,
        environ: Mapping[str, str],
        folders: BatchFolders,
        tell: Callable[[str], None],
    ) -> None:
        """Join the cluster, which takes some seconds. Raises ConfigError."""
        self._most = most
        self._places = 0
        self._log = folders.log
        tell(f"joining the Ray cluster at {address}")
        with shield():
            self._program = LineProgram(
                f"from agentcli.batch.cluster.driver import main; "
                f"main({address!r}, {str(folders.out)!r})",
                {**environ, **environment(environ), "RAY_USAGE_STATS_ENABLED": "0"},
                self._log,
                # Ray makes machines look for modules where its program is started.
                folder="/",
            )
        self._until = time.monotonic() + _JOIN_LIMIT_S
        try:
            while not self._places:
                self.reports(_PAUSE_S)
                if time.monotonic() > self._until:
                    raise ConfigError(
                        f"the Ray cluster at {address} does not answer; see {self._log}",
                        hint="ray status tells how it is",
                    )
        except BaseException:
            self.close()
            raise
        tell(f"places for {self.count} tasks at once; what Ray says is in {self._log}")

    @property
    def count(self) -> int:
        return max(1, self._places) if self._most is None else self._most

    def begin(self, order: Order) -> None:
        with shield():
            self._program.send(order.model_dump_json())

    def reports(self, seconds: float) -> Sequence[Report]:
        """Raises SessionError if the cluster is lost."""
        ready, _, _ = select.select([self._program.stdout], [], [], seconds)
        if not ready:
            return []
        with shield():
            lines = self._program.read_lines()
            if lines is None:
                raise SessionError(
                    f"the Ray cluster is lost; what it said is in {self._log}",
                    hint="once the cluster is back, run the same command again for what is left",
                )
            return [report for line in lines for report in self._reports_in(json.loads(line))]

    def close(self) -> None:
        """Close the driver's stdin, which stops what machines do."""
        with shield():
            # A driver that is still joining has nothing to record.
            self._program.end(_PATIENCE_S if self._places else _PAUSE_S)

    def _reports_in(self, told: Mapping[str, Any]) -> Iterator[Report]:
        if refused := told.get("refused"):
            raise ConfigError(refused["message"], hint=refused["hint"])
        if "joined" in told:
            self._until = time.monotonic() + _LOOK_LIMIT_S
        elif "places" in told:
            self._places = told["places"]
        else:
            yield Report.model_validate(told)
