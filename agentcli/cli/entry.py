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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agentcli import interrupts
from agentcli.cli import without_command
from agentcli.errors import AgentError, OutputError, TurnInterrupted, internal_errors, os_error_text

if TYPE_CHECKING:
    from typing import TextIO

    from _typeshed import ReadableBuffer


@dataclass
class Outcome:
    """The exit code of the program, once a command has ended."""

    code: int = 0


@contextmanager
def reporting(arguments: list[str]) -> Iterator[Outcome]:
    """Prepare signals and standard streams as the other modules expect them; report any failure of
    the block, in which `agent ARGUMENTS` is run, and set the exit code."""
    prepare_streams()
    interrupts.install()
    outcome = Outcome()
    try:
        with _reported(arguments, outcome):
            yield outcome
    except TurnInterrupted as interrupt:
        # The interrupt came while the outcome was being reported.
        outcome.code = interrupt.exit_code
    interrupts.mark_outcome_decided()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        outcome.code = outcome.code or _EXIT_STDOUT_CLOSED
    except OutputError as error:
        failed = _fail([], error.exit_code, error.message)
        outcome.code = outcome.code or failed


@contextmanager
def _reported(arguments: list[str], outcome: Outcome) -> Iterator[None]:
    try:
        with internal_errors(_report_bug, OSError):
            yield
    except AgentError as error:
        outcome.code = _fail(arguments, error.exit_code, error.message, error.hint)
    except TurnInterrupted as interrupt:
        outcome.code = _fail(arguments, interrupt.exit_code, interrupt.reason)
    except (BrokenPipeError, SystemExit):
        # The command-line library turns a closed pipe into an exit of its own.
        outcome.code = _EXIT_STDOUT_CLOSED
    except OSError as error:
        if error.errno == errno.EIO and not error.filename and not os.isatty(0):
            # The terminal is gone, even if its signal has not arrived yet.
            outcome.code = _EXIT_HUNG_UP
            return
        # A full or read-only disk or another user's file is no bug of this program.
        hint = "free some space or fix the permissions there" if error.filename else ""
        outcome.code = _fail(arguments, 1, os_error_text(error), hint)


@contextmanager
def dispatcher(arguments: list[str]) -> Iterator[Callable[[], int]]:
    """Yield a function that runs `agent ARGUMENTS` and returns its exit code. For a conversation
    the prompt is shown until the block ends, so that the user can type before the command line is
    parsed."""
    arguments = without_command.as_chat(arguments)
    with _prompt() if without_command.opens_conversation(arguments) else nullcontext():
        with interrupts.shield():
            from agentcli.cli.command_tree import dispatch  # interrupts are reported in words now
        yield partial(dispatch, arguments)


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
