"""Tests what a sandbox lets through: a process inside attempts everything on a list."""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentcli.git.repositories import find_repository
from agentcli.sandbox.landlock import (
    SCOPES_VERSION,
    SHARED_MEMORY,
    SOCKETS_VERSION,
    landlock_version,
)
from agentcli.sandbox.probe_driver import ATTACKS, WORK
from agentcli.sandbox.selection import Sandbox, SpawnOptions
from agentcli.system.processes import process_stat
from agentcli.workspace.scope import AccessScope

_LIMIT_S = 30


def expected(layer: str, *, namespaces: bool = False) -> dict[str, bool]:
    """Return what should be possible in a layer that has the network shut off. For "none" this is
    the minimum."""
    possible = dict.fromkeys(WORK, True) | dict.fromkeys(ATTACKS, layer == "none")
    if layer == "landlock":
        possible |= _under_landlock(landlock_version(), namespaces=namespaces)
    if layer == "seatbelt":
        possible |= {"tcp": True, "udp": True, "set-ID bits": True}
    if layer == "none":
        # These may fail anywhere, without privileges or under other limits of the system.
        for right in (*_NEEDS_RIGHTS, *_NEEDS_A_SYSTEM):
            del possible[right]
    return possible


_THING = re.compile(r"\bsockets\b|^(?:set-ID|shared memory|new namespaces)\b")
_NEEDS_RIGHTS = ("raw sockets", "new namespaces", "netlink", "trace the agent")
_NEEDS_A_SYSTEM = (
    *("change attributes outside", "change flags outside", "shared memory of others"),
    *("change owners outside", "set-ID bits"),
)


def _under_landlock(version: int, *, namespaces: bool) -> dict[str, bool]:
    alone = not namespaces
    changes = ("modes outside", "owners outside", "times outside")
    return {
        **{f"change {what}": alone for what in changes},
        **dict.fromkeys(("change git hooks", "change git settings", "move .git away"), True),
        "server on 127.0.0.1": namespaces,
        "terminal": namespaces,
        "shared memory of others": alone,
        "empty a file outside": alone and version < 3,
        "sockets of daemons": version < SOCKETS_VERSION,
        "abstract sockets": alone and version < SCOPES_VERSION,
        "signal the agent": version < SCOPES_VERSION,
    }


def surprises(found: Mapping[str, bool], sandbox: Sandbox) -> list[str]:
    """Return where `found` in a sandbox like this differs from what is expected, one line each."""
    wanted = expected(sandbox.layer, namespaces=sandbox.namespaces)
    return [
        f"{'cannot' if possible else 'can'} {phrase(name)}"
        for name, possible in wanted.items()
        if found.get(name, False) is not possible
    ]


def phrase(name: str) -> str:
    """Return the name of an attempt as a verb with what belongs to it."""
    is_thing = " " not in name or _THING.search(name)
    return f"use {name}" if is_thing else name


def probe(sandbox: Sandbox, folder: Path, python: str = sys.executable) -> dict[str, bool]:
    """Return which attempts succeed in a sandbox like this one, around a new workspace below
    `folder`. `python` is the interpreter that makes them, 3.8 or newer. Raises OSError with the
    reason if no program runs there at all."""
    with (
        tempfile.TemporaryDirectory(prefix="probe-", dir=folder) as name,
        contextlib.ExitStack() as stack,
    ):
        base = Path(name).resolve()
        trial = replace(sandbox, scope=_prepared_scope(base))
        # Servers that nothing in the sandbox should reach.
        tcp = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        udp = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        udp.bind(("127.0.0.1", 0))
        udp.setblocking(False)
        abstract = f"agent-probe-{os.urandom(8).hex()}"
        addresses = [_short_name(base / "outside/daemon", stack)]
        addresses += [f"\0{abstract}"] if sys.platform == "linux" else []
        for address in addresses:
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            server.bind(address)
            server.listen()
        ours = process_stat(os.getpid())
        given = {
            "workspace": str(base / "ws"),
            "outside": str(base / "outside"),
            "secret": str(base / "home/.ssh"),
            "own": str(base / "own"),
            "seen_tmp": str(base / "seen"),
            "tcp": tcp.getsockname()[1],
            "udp": udp.getsockname()[1],
            "unix": str(base / "outside/daemon"),
            "abstract": abstract,
            "memory": stack.enter_context(_shared_memory()),
            "pid": os.getpid(),
            "started": ours.started if ours else 0,
        }
        found = _tried(trial.spawn_options(str(base / "ws")), python, given)
        # A network namespace accepts datagrams and then drops them, so check that one arrived.
        try:
            found["udp"] &= bool(udp.recv(1))
        except BlockingIOError:
            found["udp"] = False
        # Where the sandbox empties a folder, such as /var/tmp, a write may succeed in its own copy.
        found["write the agent's state"] &= (base / "own/new").exists()
    return found


def _prepared_scope(base: Path) -> AccessScope:
    """Fill `base` with what is attempted at, and return the scope of its workspace."""
    git = ("ws/.git/objects", "ws/.git/refs", "ws/.git/hooks")
    for name in (*git, "outside", "home/.ssh", "own/outputs", "tmp", "seen"):
        (base / name).mkdir(parents=True)
    (base / "ws/.git/HEAD").write_text("ref: refs/heads/main\n")
    (base / "ws/.git/config").write_text("[core]\n\trepositoryformatversion = 0\n")
    others = ("outside/removable", "outside/full", "home/.ssh/key", "own/config", "seen/real")
    for name in (*others, "own/outputs/shown"):
        (base / name).write_text("x")
    repository = find_repository(base / "ws")
    interpreters = {Path(prefix).resolve() for prefix in (sys.prefix, sys.base_prefix)}
    return AccessScope(
        workspace=base / "ws",
        home=base / "home",
        writable=(base / "ws",),
        protected=repository.protected() if repository else (),
        hidden=(base / "own", base / "home/.ssh"),
        readable=(base / "own/outputs", *interpreters),
        agent_files=(base / "own",),
        mounts={base / "seen": base / "tmp"},
    )


@contextlib.contextmanager
def _shared_memory() -> Iterator[str]:
    """Yield the path of some that every program of the machine can name; "" if there is none."""
    if not SHARED_MEMORY.is_dir():
        yield ""
        return
    with tempfile.NamedTemporaryFile(prefix="agent-probe-", dir=SHARED_MEMORY) as file:
        file.write(b"x")
        file.flush()
        yield file.name


def _short_name(path: Path, stack: contextlib.ExitStack) -> str:
    """Return a name for `path` that fits into a socket address of at most 108 bytes."""
    if len(os.fsencode(path)) < 100 or not Path("/proc/self/fd").is_dir():
        return str(path)
    folder = os.open(path.parent, os.O_RDONLY)
    stack.callback(os.close, folder)
    return f"/proc/self/fd/{folder}/{path.name}"


def _tried(options: SpawnOptions, python: str, given: Mapping[str, Any]) -> dict[str, bool]:
    driver = Path(__file__).with_name("probe_driver.py").read_text()
    command = [python, "-I", "-S", "-c", driver, json.dumps(given)]
    env = {"PATH": os.environ.get("PATH", os.defpath)}
    try:
        done = options.run(command, env, _LIMIT_S)
        found: dict[str, bool] = json.loads(done.stdout)
    except subprocess.SubprocessError as error:
        raise OSError(f"no program runs in the sandbox: {error}") from error
    except ValueError as error:
        said = done.stderr.strip().splitlines()[-1:] or [f"exit {done.returncode}"]
        raise OSError(f"no program runs in the sandbox: {said[0]}") from error
    return found
