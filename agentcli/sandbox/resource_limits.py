"""Resource limits that apply to every command, in any layer."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable
from pathlib import Path

from agentcli.sandbox.seccomp import c_library, set_no_new_privileges

PROCESSES = 4096
"""How many processes may be started in addition to the running ones, counting threads."""
FILE_BYTES = 16 << 30
"""Largest size of a file."""


def limits_installer(*, new_privileges: bool) -> Callable[[], None]:
    """Return a function that sets the limits for the calling process; create it before a fork."""
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
    """Return the number of threads of all processes, which is at least the user's; None if /proc
    does not say. Counting only the user's means inspecting each process: up to 20 ms."""
    try:
        return int(Path("/proc/loadavg").read_text().split()[3].partition("/")[2])
    except (OSError, ValueError, IndexError):
        return None
