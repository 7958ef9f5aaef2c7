"""Lets commands change the settings that git changes in its daily work, while the sandbox keeps
them from writing the file.

Replacing the file would take the sandbox's mount off it, for good. So it is overwritten in place,
while nobody else can have it open: git reads all of the old text or all of the new.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator

from agentcli.git.config_files import Setting, adds_only_harmless, parse
from agentcli.git.quarantine import content
from agentcli.git.setting_names import is_among

LOCK = ".lock"
_FLAGS = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LINE = re.compile(
    rb"""\[[A-Za-z0-9.-]+(?:\ "(?:[^"\\\0-\x1f\x7f]|\\["\\])+")?\]
    |\t[A-Za-z][A-Za-z0-9-]*\ =\ (?:[^\0-\x1f\x7f]*[^\0-\x1f\x7f\\])?""",
    re.VERBOSE,
)
"""As git writes them, with values that end on the same line."""
_LONGEST_LINE = 1_000
"""Some versions of git cut longer lines in two when they rename a section (CVE-2023-29007)."""
_CONTROL = re.compile(r"[\0-\x1f\x7f]")
_PATIENCE_S = 0.2
_PAUSE_S = 0.001


def let_in(folder: int, name: str, first: bytes) -> tuple[str, ...]:
    """Give the settings file `name` the text of its lock file and remove that, as git's rename
    would have done; return the names of settings that forbid it. `first` is the text before any
    command ran. Raises OSError."""
    new = content(folder, name + LOCK)
    if new is None:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    file = os.open(name, _FLAGS, dir_fd=folder)
    try:
        with _alone(file):
            old = os.pread(file, os.fstat(file).st_size, 0)
            refused = refused_settings(first, old, new)
            if not refused:
                _overwrite(file, old, new)
    finally:
        os.close(file)
    if not refused:
        os.unlink(name + LOCK, dir_fd=folder)
    return refused


def refused_settings(first: bytes, old: bytes, new: bytes) -> tuple[str, ...]:
    """Return the names of settings for which a file may not change from `old` to `new`."""
    begun, was, wanted = parse(first), parse(old), parse(new)
    if begun is None or was is None or wanted is None or not new.endswith(b"\n"):
        return ("what git can't read",)
    changed = {*was} ^ {*wanted}
    lines = set(new.split(b"\n")) - set(old.split(b"\n")) - {b""}
    if adds_only_harmless(begun, wanted) and all(map(_is_as_git_writes, lines)):
        changed = set(filter(_never_comes_in, changed))
    elif not changed:
        return ("what git would not write",)
    return tuple(sorted({setting.name for setting in changed}))


def _is_as_git_writes(line: bytes) -> bool:
    return len(line) < _LONGEST_LINE and _LINE.fullmatch(line) is not None


def _never_comes_in(setting: Setting) -> bool:
    hidden = _CONTROL.search(f"{setting.name}{setting.value}") is not None
    return hidden or is_among("layout", setting.name)


@contextlib.contextmanager
def _alone(file: int) -> Iterator[None]:
    """Have the kernel hold up whoever opens the file. Raises OSError if somebody has it open, or if
    its file system can't do that."""
    # What tells us of those who wait must not end us, as the usual signal would.
    fcntl.fcntl(file, fcntl.F_SETSIG, signal.SIGURG)
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK)


def _overwrite(file: int, old: bytes, new: bytes) -> None:
    """Replace the content `old` by `new`. Raises OSError, and then leaves it as it was."""
    # Between the two calls, a shorter text is followed by empty lines.
    text = new.ljust(len(old), b"\n")
    try:
        if os.pwrite(file, text, 0) != len(text):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.pwrite(file, old, 0)
        os.ftruncate(file, len(old))
        raise
    os.ftruncate(file, len(new))
