"""Machines of a Ray cluster as workers, and what they must have in common with this one.

Nothing here loads Ray: it takes signals and streams for itself, and ends its process when the
cluster is gone. So `RayWorkers` starts a program, `ray_driver`.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import agentcli
from agentcli.app.configuration.store import configured_store
from agentcli.batch.folders import BatchFolders
from agentcli.batch.task import Order, Report
from agentcli.batch.worker_processes import LineProgram
from agentcli.errors import ConfigError, SessionError
from agentcli.interrupts import shield
from agentcli.system.homes import state_home

_FROM_HERE = ("AGENT_CONFIG", "AGENT_MODEL")
_PROBE = ".cluster-"


@dataclass(frozen=True)
class Requirements:
    """Sent to each machine as plain data. `environ` is set over the machine's own environment and
    says where sessions and settings are; it has no keys, as a machine has its own. `store` is a
    digest of the setting of the sessions' store, and `tokens` comes from `probes`."""

    version: str
    environ: Mapping[str, str]
    store: str
    tokens: Mapping[str, str]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that each machine takes over from the one that starts the batch."""
    given = {name: environ[name] for name in _FROM_HERE if environ.get(name)}
    if config := given.get("AGENT_CONFIG"):
        given["AGENT_CONFIG"] = str(Path(config).expanduser().absolute())
    given["AGENT_HOME"] = str(state_home(environ))
    return given


def requirements_here(environ: Mapping[str, str], tokens: Mapping[str, str]) -> Requirements:
    given = environment(environ)
    return Requirements(agentcli.__version__, given, _store({**environ, **given}), tokens)


def _store(environ: Mapping[str, str]) -> str:
    # Its URL may have a password, and Ray shows arguments to whoever looks at its tasks.
    return hashlib.sha256(configured_store(environ, {}).encode()).hexdigest()


@contextmanager
def probes(folders: Sequence[Path]) -> Iterator[Mapping[str, str]]:
    """Put a locked file into each folder for the length of the block, by which a machine can tell
    whether it sees the same folder and the locks in it. Yields the content of each file by its
    path. Raises OSError."""
    with ExitStack() as undo:
        found = {}
        for folder in folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            for left in folder.glob(f"{_PROBE}*"):
                # The lock of a killed process is gone.
                with suppress(OSError):
                    fd = os.open(left, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
                    try:
                        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        left.unlink()
                    finally:
                        os.close(fd)
            token = secrets.token_hex(8)
            path = folder / f"{_PROBE}{token}"
            fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
            undo.callback(path.unlink, missing_ok=True)
            undo.callback(os.close, fd)
            os.write(fd, token.encode())
            os.fsync(fd)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            found[str(path)] = token
        yield found


def why_unfit(given: Requirements) -> str:
    """Return, on a machine, why it can't carry out tasks, in one line; empty if it can."""
    if agentcli.__version__ != given.version:
        return f"it has agent {agentcli.__version__}, and the batch is of {given.version}"
    if _store({**os.environ, **given.environ}) != given.store:
        return "its settings name another store for sessions (sessions.store)"
    for path, token in given.tokens.items():
        if why := _unseen(Path(path), token):
            return why
    return ""


def _unseen(path: Path, token: str) -> str:
    folder = path.parent
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return f"its {folder} is another folder; one that all machines share is needed"
    except OSError as error:
        return f"{folder} can't be used there: {error.strerror}"
    try:
        if os.pread(fd, 100, 0) != token.encode():
            return f"its {folder} is another folder; one that all machines share is needed"
        if os.fstat(fd).st_uid != os.getuid():
            return f"it works as another user than the one {folder} belongs to"
        with suppress(BlockingIOError):
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return f"{folder} passes no locks on between machines; NFS 4, CephFS and Lustre can"
    except OSError as error:
        return f"{folder} can't be locked there: {error.strerror}"
    finally:
        os.close(fd)
    return ""


def host() -> str:
    """Return this machine's name, fit for a file's name."""
    return "".join(c if c.isalnum() or c in "-." else "_" for c in socket.gethostname())


_ANSWER_S = 5.0
_JOIN_LIMIT_S = 60.0
_LOOK_LIMIT_S = 150.0
"""How long machines have to say whether they are fit; the driver waits 120 s of it."""
_PAUSE_S = 0.5
_PATIENCE_S = 40.0
"""How long machines have to stop their tasks. Records are complete in any case."""


def require_reachable(address: str) -> None:
    """Raise ConfigError if the cluster at `address` obviously can't be used."""
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
                f"from agentcli.batch.ray_driver import main; "
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
