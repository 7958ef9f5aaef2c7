"""Run a command, from its arguments to its exit code; every failure is reported in words. The
standard streams are made what the rest takes them to be: open, and fit for every character.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import termios
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from agentcli import interrupts
from agentcli.cli import without_command
from agentcli.errors import AgentError, OutputError, TurnInterrupted, internal_errors, os_error_text

if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


def run_program(arguments: list[str]) -> int:
    """Run `agent ARGUMENTS`, after preparing signals and standard streams as the other modules
    expect them."""
    prepare_streams()
    interrupts.install()
    try:
        code = _run(arguments)
    except TurnInterrupted as interrupt:
        # The interrupt came while the outcome was being reported.
        code = interrupt.exit_code
    interrupts.mark_outcome_decided()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return code or _EXIT_STDOUT_CLOSED
    except OutputError as error:
        failed = _fail([], error.exit_code, error.message)
        return code or failed
    return code


def _run(arguments: list[str]) -> int:
    try:
        with internal_errors(_report_bug, OSError):
            arguments = without_command.as_chat(arguments)
            with _prompt() if without_command.opens_conversation(arguments) else nullcontext():
                with interrupts.shield():
                    from agentcli.cli.command_tree import dispatch  # interrupts now end in words
                return dispatch(arguments)
    except AgentError as error:
        return _fail(arguments, error.exit_code, error.message, error.hint)
    except TurnInterrupted as interrupt:
        return _fail(arguments, interrupt.exit_code, interrupt.reason)
    except (BrokenPipeError, SystemExit):
        # The command-line library turns a closed pipe into an exit of its own.
        return _EXIT_STDOUT_CLOSED
    except OSError as error:
        if error.errno == errno.EIO and not error.filename and not os.isatty(0):
            # The terminal is gone, even if its signal has not arrived yet.
            return _EXIT_HUNG_UP
        # A full or read-only disk or another user's file is no bug of this program.
        hint = "free some space or fix the permissions there" if error.filename else ""
        return _fail(arguments, 1, os_error_text(error), hint)


def _report_bug(error: Exception) -> AgentError:
    """Return a bug as an error in one line, with its traceback kept for a bug report."""
    from agentcli.cli.error_reporting import internal_error

    if isinstance(error, termios.error) and error.args[:1] == (errno.EIO,):
        # As other calls tell that the terminal is gone.
        raise OSError(*error.args) from error
    # Python wraps an exception that a signal handler raises while a class is being created.
    if isinstance(error.__cause__, TurnInterrupted):
        raise error.__cause__
    return internal_error(error)


@contextmanager
def _prompt() -> Iterator[None]:
    """Show the prompt, so that the user can type before the command line is parsed."""
    with interrupts.shield():
        from agentcli.cli.conversation import launch

    launch.show_prompt()
    try:
        yield
    finally:
        launch.close_prompt()


def _fail(arguments: list[str], code: int, message: str, hint: str = "") -> int:
    from agentcli.cli.error_reporting import print_error, write_result

    print_error(message, hint)
    if "--json" in arguments or "stream-json" in arguments:
        write_result(code, message, hint)
    return code


def prepare_streams() -> None:
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


_EXIT_STDOUT_CLOSED = 141
_EXIT_HUNG_UP = 143
