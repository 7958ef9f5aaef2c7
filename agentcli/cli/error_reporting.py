"""Report errors to a user: what happened, then what to do."""

from __future__ import annotations

import os
import sys
import traceback
from contextlib import suppress

from agentcli.errors import AgentError, internal_error_text
from agentcli.security.redact import Redactor, masked_values
from agentcli.system.homes import state_home
from agentcli.system.programs import user_environ
from agentcli.ui.jsonl import JsonLinesWriter
from agentcli.ui.screen import terminal_size
from agentcli.ui.summary import RunSummary
from agentcli.ui.text import Span, plain, printable, wrap


def print_error(message: str, hint: str = "") -> None:
    lines = [*_rows(f"agent: {message}"), *(_rows(hint, "  ") if hint else ())]
    # If stderr is gone, the exit code has to do.
    with suppress(OSError):
        print("\n".join(lines), file=sys.stderr)


def _rows(text: str, before: str = "") -> list[str]:
    """Break `text` at words for a user at a terminal; in a log, each line stays in one piece."""
    text = printable(text)
    if not sys.stderr.isatty():
        return [f"{before}{text}"]
    width = terminal_size(sys.stderr)[0] - 1 - len(before)
    return [before + plain(row) for row in wrap([Span(text)], width)]


def write_result(code: int, message: str, hint: str) -> None:
    """Write the only JSON line of a run that failed before there was a session."""
    summary = RunSummary("error", "", exit_code=code, error=message, hint=hint)
    JsonLinesWriter(sys.stdout, "").write_result(summary)


def internal_error(error: Exception) -> AgentError:
    """Return the error that reports a bug, and append its traceback to a log for a bug report."""
    environ = user_environ()
    redact = Redactor(masked_values(environ))
    told = AgentError(redact.text(internal_error_text(error)))
    told.exit_code = 70
    try:
        path = state_home(environ) / "log"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "a") as file:
            file.write(redact.text("".join(traceback.format_exception(error))) + "\n")
        told.hint = f"this is a bug; the traceback is in {path}"
    except (OSError, AgentError) as problem:
        told.hint = f"this is a bug; its traceback could not be kept: {problem}"
    return told
