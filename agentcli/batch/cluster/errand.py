"""What is handed to the machines of a cluster beside the orders: plain data."""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import agentcli
from agentcli.app.session_store import configured_store
from agentcli.system.homes import state_home

_FROM_HERE = ("AGENT_CONFIG", "AGENT_MODEL")
_PROBE = ".cluster-"


@dataclass(frozen=True)
class Cluster:
    """The Ray cluster at `address`, `HOST:PORT` or `auto`; `most`: tasks at once, None: as many as
    it has CPUs."""

    address: str
    most: int | None = None


@dataclass(frozen=True)
class Errand:
    """`environ` goes over that of a machine's own: where sessions are kept and which settings hold.
    Keys are not in it: a machine has its own. `store` is a digest of what its settings have to say
    of the store of sessions, `tokens` what `probes` gave."""

    version: str
    environ: Mapping[str, str]
    store: str
    tokens: Mapping[str, str]


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What goes along of the environment of whoever starts the batch."""
    given = {name: environ[name] for name in _FROM_HERE if environ.get(name)}
    if config := given.get("AGENT_CONFIG"):
        given["AGENT_CONFIG"] = str(Path(config).expanduser().absolute())
    given["AGENT_HOME"] = str(state_home(environ))
    return given


def errand(environ: Mapping[str, str], tokens: Mapping[str, str]) -> Errand:
    given = environment(environ)
    return Errand(agentcli.__version__, given, _store({**environ, **given}), tokens)


def _store(environ: Mapping[str, str]) -> str:
    # Its URL may have a password, which Ray would show to whoever looks at its tasks.
    return hashlib.sha256(configured_store(environ, {}).encode()).hexdigest()


@contextmanager
def probes(folders: Sequence[Path]) -> Iterator[Mapping[str, str]]:
    """A file in each folder, locked while the block lasts, by which a machine can tell whether it
    sees the same folder, and our locks in it: what is in each, by path. Raises OSError."""
    with ExitStack() as undo:
        found = {}
        for folder in folders:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sweep(folder)
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


def _sweep(folder: Path) -> None:
    """Probes of processes that were killed, whose locks are gone."""
    for path in folder.glob(f"{_PROBE}*"):
        with suppress(OSError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(fd)


def unfit(given: Errand) -> str:
    """Called on a machine: why it can't carry out tasks, in one line; empty if it can."""
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
    """This machine's name, as a part of a file's name."""
    return "".join(c if c.isalnum() or c in "-." else "_" for c in socket.gethostname())
