"""The `agent` command. `--version` is answered before anything is imported."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

EXIT_INTERNAL = 70
EXIT_STDOUT_CLOSED = 141


def main() -> NoReturn:
    """Run the command line and exit with its documented code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from agentcli import __version__

        print(f"agent {__version__}")
        sys.exit(0)
    code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except (BrokenPipeError, ValueError, AttributeError):
        code = code or EXIT_STDOUT_CLOSED
    # The interpreter's own end would take apart thousands of modules that nobody needs any more.
    os._exit(code)


def run(arguments: list[str]) -> int:
    """The exit code of `agent ARGUMENTS`; whatever goes wrong is told on stderr in words."""
    from agentcli.cli.complaints import complain
    from agentcli.errors import AgentError, TurnInterrupted

    try:
        return _dispatch(arguments)
    except AgentError as error:
        complain(error.message, error.hint)
        return error.exit_code
    except TurnInterrupted as interrupt:
        return interrupt.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_STDOUT_CLOSED
    except Exception as error:
        complain(f"internal error: {type(error).__name__}: {error}", _record_traceback())
        return EXIT_INTERNAL


def _dispatch(arguments: list[str]) -> int:
    import typer
    from typer.main import get_command

    from agentcli.cli.app import app
    from agentcli.cli.complaints import complain

    try:
        result = get_command(app)(arguments, prog_name="agent", standalone_mode=False)
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
        complain(error.format_message(), f"see: {command} --help")
        return 2
    return result if isinstance(result, int) else 0


def _record_traceback() -> str:
    """Keep the traceback for a bug report; returns where, as a hint."""
    import traceback

    from agentcli.config import state_home
    from agentcli.security.redact import Redactor

    text = Redactor(v for k, v in os.environ.items() if k.endswith(("_KEY", "_TOKEN")))
    path = state_home(os.environ) / "log"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a") as file:
            file.write(text.text(traceback.format_exc()) + "\n")
    except OSError as error:
        return f"the traceback could not be kept in {path}: {error.strerror}"
    return f"this is a bug; the traceback is in {path}"


if __name__ == "__main__":
    main()
