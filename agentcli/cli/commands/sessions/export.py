"""Write a session to stdout or a file, with its secrets masked.

Exits 1 when the session is damaged; its intact part is written all the same.

Examples:
  agent sessions export parser --format markdown -o parser.md
  agent sessions export parser > parser.json
  agent sessions export parser --format html -o parser.html
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

from agentcli.cli.builders import redactor
from agentcli.cli.options import Last, SessionOption, SessionOrNewest, option
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.terminal import working
from agentcli.cli.user_paths import write_atomically
from agentcli.sessions.export import exporter, trajectory_of
from agentcli.sessions.session import read_session
from agentcli.ui.text import printable, say_note


def export(
    named: SessionOrNewest = None,
    form: Annotated[str, option("--format, -f FORMAT", "json, jsonl, markdown or html.")] = "json",
    output: Annotated[Path | None, option("--output, -o FILE", "Instead of stdout.")] = None,
    session: SessionOption = None,
    last: Last = False,
    as_json: Annotated[bool, option("--json", "The same as --format json.")] = False,
) -> int:
    write = exporter("json" if as_json else form)
    folder = selected_session(named, session, last=last)
    seen = output is None and sys.stdout.isatty()
    with nullcontext() if seen else working(f"writing {folder.name} as {form}"):
        record = read_session(folder)
        pieces = write(trajectory_of(record, redactor()))
        if output is None:
            _write_to_stdout(pieces)
        else:
            write_atomically(output, pieces)
    if record.log.fault:
        say_note(
            f"exported up to event {record.state.end_id}, what follows is damaged: "
            f"{record.log.fault}"
        )
        return 1
    return 0


def _write_to_stdout(pieces: Iterator[str]) -> None:
    for piece in pieces:
        text = printable(piece) if sys.stdout.isatty() else piece
        # An export is UTF-8, whatever the locale says.
        sys.stdout.buffer.write(text.encode("utf-8", "replace"))


COMMAND = export
