"""Make the standard streams what the rest takes them to be: open, and fit for every character."""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import TYPE_CHECKING

from agentcli.errors import OutputError

if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


def prepare() -> None:
    """Replace closed streams, and let no character stop the output.

    A closed stdout becomes a pipe that nobody reads, which has the same effect.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            _stand_in(fd)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)
    sys.stderr.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.stdout = _stdout()
    warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    from agentcli.cli.error_reporting import print_error

    print_error(f"warning: {message}")


def _stand_in(fd: int) -> None:
    """Open a substitute for `fd`: the system assigns the lowest free descriptor, which is `fd`."""
    if fd != 1:
        os.open(os.devnull, os.O_RDWR)
        return
    reader, writer = os.pipe()
    os.dup2(writer, 1)
    for end in {reader, writer} - {1}:
        os.close(end)


def _stdout() -> TextIO:
    encoding = sys.stdout.encoding if sys.stdout is not None else "utf-8"
    file = _Stdout(1, "w", closefd=False)
    return io.TextIOWrapper(
        io.BufferedWriter(file),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=file.isatty(),
    )


class _Stdout(io.FileIO):
    """A stdout whose writes fail only once: later output goes nowhere, so the end of the process
    does not fail again. Raises BrokenPipeError, and OutputError for any other reason."""

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            if isinstance(error, BrokenPipeError):
                raise
            raise OutputError(f"stdout can't be written: {error.strerror}") from error
