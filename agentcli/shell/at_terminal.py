"""A command of the person's own, with the terminal: it is used as in any shell, and recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

import pexpect

from agentcli.shell.output import clean

_MOST_BYTES = 10_000_000


def run_at_terminal(
    command: Sequence[str], environ: Mapping[str, str], folder: str, size: tuple[int, int]
) -> tuple[int, str]:
    """Exit code (128 + signal) and readable output, the first 10 MB of it. `size`: columns and
    rows. Stdin and stdout of this process are the terminal. Raises pexpect.ExceptionPexpect when
    the command can't be started."""
    columns, rows = size
    kept = bytearray()

    def record(data: bytes) -> bytes:
        if len(kept) < _MOST_BYTES:
            kept.extend(data)
        return data

    program, *arguments = command
    child = pexpect.spawn(
        program, arguments, env=dict(environ), cwd=folder, dimensions=(rows, columns)
    )
    child.interact(escape_character=None, output_filter=record)
    # What a command that ended early has written is not read by then.
    with suppress(pexpect.EOF):
        while True:
            os.write(1, record(child.read_nonblocking(65_536, timeout=None)))
    child.close()
    code = child.exitstatus if child.exitstatus is not None else 128 + (child.signalstatus or 0)
    return code, clean(bytes(kept))
