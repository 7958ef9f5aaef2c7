"""What a folder holds, for comparing, and processes that run one function."""

from __future__ import annotations

import os
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path

NOBODY = 65534


def contents(top: Path, *, without: tuple[bytes, ...] = ()) -> dict[bytes, tuple[int, bytes]]:
    """Mode and bytes (a symlink's target) of everything below `top` by its path."""
    found = {}
    waiting = [b""]
    while waiting:
        folder = waiting.pop()
        for entry in os.scandir(os.fsencode(top) + b"/" + folder):
            path = folder + entry.name
            if path in without:
                continue
            mode = entry.stat(follow_symlinks=False).st_mode
            if stat.S_ISDIR(mode):
                found[path] = (mode, b"")
                waiting.append(path + b"/")
            elif stat.S_ISLNK(mode):
                found[path] = (stat.S_IFLNK, os.readlink(entry.path))  # noqa: PTH115 (Path tidies it up)
            elif stat.S_ISREG(mode):
                with open(entry.path, "rb") as file:
                    found[path] = (mode, file.read())
            else:
                found[path] = (mode, b"special")
    return found


def in_child(act: Callable[[], object]) -> int:
    """The exit status of a forked process that runs `act`; negative for a signal."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            act()
            status = 0
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def as_nobody(act: Callable[[], object]) -> int:
    """`in_child` with no more rights than an ordinary user has."""

    def without_rights() -> None:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        act()

    return in_child(without_rights)


_BOUNDARIES = frozenset(
    (
        *("open", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.remove"),
        *("os.chmod", "os.truncate"),
    )
)


def killed_at(step: int, act: Callable[[], object]) -> bool:
    """Runs `act` in a process that is killed when it is about to change the disk, or to open a
    file, for the `step`-th time. False if it came to its end before."""
    left = step

    def count(event: str, _: object) -> None:
        nonlocal left
        if event in _BOUNDARIES:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def hooked() -> None:
        sys.addaudithook(count)
        act()

    return in_child(hooked) == -signal.SIGKILL
