"""The `agent` command. `--version` is answered before anything is imported."""

from __future__ import annotations

import gc
import os
import sys
from typing import NoReturn

EXIT_INTERNAL = 70
EXIT_STDOUT_CLOSED = 141
_OBJECTS_OF_A_START = 1_000_000


def main() -> NoReturn:
    """Run the command line and exit with its documented code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from agentcli import __version__

        print(f"agent {__version__}")
        sys.exit(0)
    # Searching what modules are made of for cycles takes a twelfth of a start, and finds none.
    gc.set_threshold(_OBJECTS_OF_A_START, *gc.get_threshold()[1:])
    from agentcli import interrupts
    from agentcli.system import programs

    programs.enter()
    from agentcli.cli import streams
    from agentcli.errors import OutputError

    streams.prepare()
    interrupts.install()
    code = run(sys.argv[1:])
    interrupts.end()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or EXIT_STDOUT_CLOSED
    except OutputError as error:
        from agentcli.cli.complaints import complain

        complain(error.message)
        code = code or error.exit_code
    # The interpreter's own end would take apart thousands of modules that nobody needs any more.
    os._exit(code)


def run(arguments: list[str]) -> int:
    """The exit code of `agent ARGUMENTS`; whatever goes wrong is told on stderr in words."""
    from agentcli.errors import AgentError, TurnInterrupted

    try:
        return _dispatch(arguments)
    except AgentError as error:
        return _fail(arguments, error.exit_code, error.message, error.hint)
    except TurnInterrupted as interrupt:
        return _fail(arguments, interrupt.exit_code, interrupt.reason)
    except (BrokenPipeError, SystemExit):
        # The command-line library turns a closed pipe into an exit of its own.
        return EXIT_STDOUT_CLOSED
    except OSError as error:
        # A disk that is full or read-only, a file of another user: no bug of the program.
        where = f" ({error.filename})" if error.filename else ""
        hint = "make room or permissions there" if where else ""
        return _fail(arguments, 1, f"{error.strerror or error}{where}", hint)
    except Exception as error:
        from agentcli.cli.complaints import internal_error

        # Python wraps what a signal handler raises in the middle of making a class.
        if isinstance(error.__cause__, TurnInterrupted):
            return _fail(arguments, error.__cause__.exit_code, error.__cause__.reason)
        told = internal_error(error)
        return _fail(arguments, told.exit_code, told.message, told.hint)


def _fail(arguments: list[str], code: int, message: str, hint: str = "") -> int:
    from agentcli.cli.complaints import complain, write_result

    complain(message, hint)
    if "--json" in arguments or "stream-json" in arguments:
        write_result(code, message, hint)
    return code


def _dispatch(arguments: list[str]) -> int:
    import typer

    from agentcli.cli.app import root

    try:
        result = root()(arguments, prog_name="agent", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except typer.Abort:
        return 130
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.format_message(), file=sys.stderr)
            return 2
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "agent"
        return _fail(arguments, 2, error.format_message(), f"see: {command} --help")
    return result if isinstance(result, int) else 0


if __name__ == "__main__":
    main()
