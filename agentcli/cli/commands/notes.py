"""Show the notes that outlive a session, on this project and on you.

Sessions are given them when they begin, so a change counts from the next session on. They are yours
to edit: $EDITOR "$(agent notes --path)".

Examples:
  agent notes
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from agentcli.app.knowledge import notes_on
from agentcli.cli.command import Command, CommandTarget, Report, ShellTarget
from agentcli.cli.options import option
from agentcli.cli.user_paths import here, home, tilde_path
from agentcli.knowledge.notes import FILES, Notes, Target
from agentcli.system.homes import user_home
from agentcli.system.programs import user_environ
from agentcli.ui.summary import count
from agentcli.ui.text import Line, Span, printable

_WHOSE: dict[Target, str] = {"memory": "on this project", "user": "on you"}


def notes(
    target: CommandTarget,
    only_path: Annotated[
        bool, option("--path", "Only the file of the notes on this project.")
    ] = False,
) -> Report:
    kept = notes_of(target)
    if only_path:
        return Report([[Span(str(kept.path("memory")))]])
    found = [(kept.path(whose), kept.entries(whose)) for whose in FILES]
    in_shell = isinstance(target, ShellTarget)
    lines = [line for whose in FILES for line in _lines(kept, whose, in_shell)]
    kept.shown()
    data = [{"path": str(path), "notes": entries} for path, entries in found]
    return Report(lines, notices=kept.notices, data=data, indent=None)


def notes_of(target: CommandTarget) -> Notes:
    if isinstance(target, ShellTarget):
        return notes_on(here(), home(), user_home(user_environ()))
    builder = target.builder
    return notes_on(builder.workspace, builder.home, user_home(builder.environ))


def _lines(kept: Notes, whose: Target, in_shell: bool) -> Iterator[Line]:
    entries = kept.entries(whose)
    size = count(len(entries), "note") if entries else "no notes"
    if in_shell:
        yield [Span(f"{kept.path(whose)}: {size}")]
    else:
        path = tilde_path(kept.path(whose))
        yield [Span(f"{size} {_WHOSE[whose]}", "bold"), Span(f"  {path}", "dim")]
    for entry in entries:
        first, *more = printable(entry).split("\n")
        yield [Span(f"- {first}")]
        yield from ([Span(f"  {row}")] for row in more)


NOTES = Command(notes)
COMMAND = NOTES.in_shell("none")
