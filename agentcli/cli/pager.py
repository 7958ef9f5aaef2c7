"""Long texts for people at a terminal, through the pager that they like."""

from __future__ import annotations

import shlex
import subprocess
import sys
from contextlib import suppress

from agentcli.system.programs import find_program, person_environ
from agentcli.ui.live import terminal_size


def show_in_pager(text: str, *, at_end: bool = False) -> bool:
    """Show `text`, which may have colours, by $PAGER, else less; `at_end` begins with its last
    rows. False where there is no pager to be had; then nothing was shown. The terminal has to be
    the caller's."""
    environ = dict(person_environ())
    words = shlex.split(environ.get("PAGER") or "less")
    program = find_program(words[0]) if words else None
    if program is None:
        return False
    arguments = words[1:]
    if program.endswith("/less"):
        # The whole screen, colours, and no quitting at once where the text is short.
        arguments += ["-R", "+G"] if at_end else ["-R"]
    environ["LESSSECURE"] = "1"
    process = subprocess.Popen([program, *arguments], stdin=subprocess.PIPE, env=environ)
    assert process.stdin is not None
    with suppress(OSError):
        process.stdin.write(text.encode("utf-8", "replace"))
    with suppress(OSError):
        process.stdin.close()
    process.wait()
    return True


def fits_screen(text: str) -> bool:
    """Whether a terminal shows all of it at once; long lines count once."""
    return text.count("\n") < terminal_size(sys.stdout)[1] - 1
