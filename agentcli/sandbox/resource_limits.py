"""Limits that every command has, whatever contains it."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

from agentcli.sandbox.seccomp import c_library, set_no_new_privileges

PROCESSES = 4096
"""Allowed in addition to those that run already, threads included."""
FILE_BYTES = 16 << 30
"""Of one file."""


def limits_installer(*, new_privileges: bool) -> Callable[[], None]:
    """What sets the limits for the calling process; to be made before a fork."""
    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: FILE_BYTES}
    if (running := _tasks()) is not None:
        limits[resource.RLIMIT_NPROC] = running + PROCESSES
    lowered = [(kind, _lowered(kind, value)) for kind, value in limits.items()]
    libc = None if new_privileges or os.uname().sysname != "Linux" else c_library()

    def install() -> None:
        for kind, limit in lowered:
            resource.setrlimit(kind, (limit, limit))
        if libc is not None:
            set_no_new_privileges(libc)

    return install


def _lowered(kind: int, value: int) -> int:
    soft, hard = resource.getrlimit(kind)
    known = [limit for limit in (soft, hard, value) if limit != resource.RLIM_INFINITY]
    return min(known)


def _tasks() -> int | None:
    """Threads of all processes, at least those of this user; None where /proc does not tell. To
    count the user's takes a look at each process: up to 20 ms."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None
