"""What a machine of a cluster must have in common with the one that starts the batch."""

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
from agentcli.app.configuration.store import configured_store
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
    """Remove the probes of killed processes, whose locks are gone."""
    for path in folder.glob(f"{_PROBE}*"):
        with suppress(OSError):
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
            finally:
                os.close(fd)


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
