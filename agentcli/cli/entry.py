"""Run a command, from its arguments to its exit code; every failure is reported in words."""

from __future__ import annotations

import errno
import os
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from agentcli import interrupts
from agentcli.cli import streams, without_command
from agentcli.errors import AgentError, OutputError, TurnInterrupted, internal_errors, os_error_text

_EXIT_STDOUT_CLOSED = 141
_EXIT_HUNG_UP = 143


def run_program(arguments: list[str]) -> int:
    """Run `agent ARGUMENTS`, after preparing signals and standard streams as the other modules
    expect them."""
    streams.prepare()
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
                code = _dispatch(arguments)
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
    return code


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


def _dispatch(arguments: list[str]) -> int:
    with interrupts.shield():
        from agentcli.cli.command_tree import dispatch  # interrupts are reported in words now

    return dispatch(arguments)


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
