"""Runs inside a sandbox and prints, as JSON, what is possible there.

It uses only the standard library, because our package need not be visible there. Its argument is
JSON: see `sandbox_probes`.
"""

# ruff: noqa: PTH101, PTH104, PTH108, PTH116, PTH211

from __future__ import annotations

import ctypes
import fcntl
import json
import multiprocessing
import os
import pty
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

_NEW_USER_AND_MOUNTS = 0x10020000
_GET_FLAGS, _SET_FLAGS = 0x80086601, 0x40086602
_SEIZE = 0x4206
_LIMIT_S = 3


def main(place: dict[str, Any]) -> dict[str, bool]:
    attempts = {**WORK, **ATTACKS}
    return {name: _succeeds(attempt, place) for name, attempt in attempts.items()}


def _succeeds(attempt: Callable[[dict[str, Any]], object], place: dict[str, Any]) -> bool:
    try:
        attempt(place)
    except (OSError, ValueError, subprocess.SubprocessError):
        return False
    return True


def _write(path: str) -> None:
    with open(path, "a") as file:
        file.write("x")


def _read(path: str) -> None:
    with open(path) as file:
        if not file.read(1):
            raise ValueError("it is empty")


def _write_by_link(inside: str, outside: str) -> None:
    os.symlink(f"{outside}/by-link", f"{inside}/link")
    _write(f"{inside}/link")


def _set_attribute(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    name, value = b"user.agent-probe", b"x"
    if libc.setxattr(path.encode(), name, value, ctypes.c_size_t(len(value)), 0):
        raise OSError(ctypes.get_errno(), "refused")


def _set_flags(path: str) -> None:
    with open(path) as file:
        flags = bytearray(8)
        fcntl.ioctl(file, _GET_FLAGS, flags)
        fcntl.ioctl(file, _SET_FLAGS, bytes(flags))


def _set_id(path: str) -> None:
    _write(path)
    os.chmod(path, 0o4711)
    if not os.stat(path).st_mode & 0o4000:
        raise ValueError("the bit was dropped")


def _commit(folder: str) -> None:
    git = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["add", "new"], ["commit", "-qm", "probe"]):
        subprocess.run(
            [*git, *command],
            check=True,
            timeout=10,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull},
        )


def _terminal() -> None:
    main_end, other_end = pty.openpty()
    os.write(other_end, b"x")
    os.read(main_end, 1)


def _double(number: int) -> int:
    return 2 * number


def _processes() -> None:
    context = multiprocessing.get_context("fork")
    with context.Pool(2) as pool:
        if pool.map(_double, [1, 2]) != [2, 4]:
            raise ValueError("wrong answer")


def _loopback() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        _connect(server.getsockname()[1])


def _connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), timeout=_LIMIT_S).close()


def _send_datagram(port: int) -> None:
    """Only the receiver knows whether it arrives."""
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port))


def _netlink() -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, 0).bind((0, 0))


def _connect_unix(address: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(_LIMIT_S)
        client.connect(address)


def _same_process(pid: int, started: int) -> None:
    """Raise ValueError unless `pid` is that process; in another namespace it may be a different
    one."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    if int(fields[19]) != started:
        raise ValueError("another process")


def _signal(pid: int, started: int) -> None:
    os.kill(pid, 0)
    _same_process(pid, started)


def _environ(pid: int, started: int) -> None:
    _same_process(pid, started)
    _read(f"/proc/{pid}/environ")


def _new_namespaces() -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(_NEW_USER_AND_MOUNTS) == 0 else 1)
    if os.waitpid(child, 0)[1] != 0:
        raise ValueError("refused")


def _trace(pid: int, started: int) -> None:
    _same_process(pid, started)
    if ctypes.CDLL(None).ptrace(_SEIZE, pid, 0, 0) != 0:
        raise ValueError("refused")


WORK: dict[str, Callable[[dict[str, Any]], object]] = {
    "write in the workspace": lambda place: _write(f"{place['workspace']}/new"),
    "git commit": lambda place: _commit(place["workspace"]),
    "terminal": lambda place: _terminal(),
    "processes": lambda place: _processes(),
    "server on 127.0.0.1": lambda place: _loopback(),
    "read its outputs": lambda place: _read(f"{place['own']}/outputs/shown"),
}
"""What ordinary work needs."""
ATTACKS: dict[str, Callable[[dict[str, Any]], object]] = {
    "write outside": lambda place: _write(f"{place['outside']}/new"),
    "write outside by a link": lambda place: _write_by_link(place["workspace"], place["outside"]),
    "remove outside": lambda place: os.unlink(f"{place['outside']}/removable"),
    "empty a file outside": lambda place: os.truncate(f"{place['outside']}/full", 0),
    "change modes outside": lambda place: os.chmod(f"{place['outside']}/full", 0o640),
    "change owners outside": lambda place: os.chown(f"{place['outside']}/full", -1, os.getegid()),
    "change times outside": lambda place: os.utime(f"{place['outside']}/full", (1, 1)),
    "change attributes outside": lambda place: _set_attribute(f"{place['outside']}/full"),
    "change flags outside": lambda place: _set_flags(f"{place['outside']}/full"),
    "set-ID bits": lambda place: _set_id(f"{place['workspace']}/shell"),
    "change git hooks": lambda place: _write(f"{place['workspace']}/.git/hooks/pre-commit"),
    "change git settings": lambda place: _write(f"{place['workspace']}/.git/config"),
    "move .git away": lambda place: os.rename(
        f"{place['workspace']}/.git", f"{place['workspace']}/moved"
    ),
    "read secrets": lambda place: _read(f"{place['secret']}/key"),
    "read the agent's state": lambda place: _read(f"{place['own']}/config"),
    "write the agent's state": lambda place: _write(f"{place['own']}/new"),
    "see files in the real /tmp": lambda place: _read(f"{place['seen_tmp']}/real"),
    "tcp": lambda place: _connect(place["tcp"]),
    "udp": lambda place: _send_datagram(place["udp"]),
    "raw sockets": lambda place: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
    "netlink": lambda place: _netlink(),
    "sockets of daemons": lambda place: _connect_unix(place["unix"]),
    "abstract sockets": lambda place: _connect_unix("\0" + place["abstract"]),
    "signal the agent": lambda place: _signal(place["pid"], place["started"]),
    "read the agent's environment": lambda place: _environ(place["pid"], place["started"]),
    "new namespaces": lambda place: _new_namespaces(),
    "trace the agent": lambda place: _trace(place["pid"], place["started"]),
    "shared memory of others": lambda place: _read(place["memory"]),
}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
