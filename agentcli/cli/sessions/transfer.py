"""Sessions: list, show, search, rename, remove, export, import, copy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from agentcli.cli.error_reporting import print_error
from agentcli.cli.options import (
    Json,
    Last,
    OneSession,
    SessionOption,
    SessionOrNewest,
    argument,
    option,
)
from agentcli.cli.sessions.rows import session_as_dict
from agentcli.cli.sessions.selector import selected_session
from agentcli.cli.terminal import working
from agentcli.cli.user_paths import home, write_atomically
from agentcli.errors import AgentError, UsageError
from agentcli.sessions import set_store_selector
from agentcli.sessions.export import exporter, trajectory_of
from agentcli.sessions.finder import SessionTree, find, session_states, state_of
from agentcli.sessions.library import library_at, library_of
from agentcli.sessions.session import read_session
from agentcli.sessions.transfer import Copied, copy_session, import_session
from agentcli.sessions.upkeep import repair as repair_session
from agentcli.ui.summary import count
from agentcli.ui.text import printable, say, say_note


def export(
    named: SessionOrNewest = None,
    form: Annotated[str, option("--format, -f FORMAT", "json, jsonl, markdown or html.")] = "json",
    output: Annotated[Path | None, option("--output, -o FILE", "Instead of stdout.")] = None,
    session: SessionOption = None,
    last: Last = False,
    as_json: Annotated[bool, option("--json", "The same as --format json.")] = False,
) -> int:
    """Write a session to stdout or a file, with its secrets masked.

    Exits 1 when the session is damaged; its intact part is written all the same.

    Examples:
      agent sessions export parser --format markdown -o parser.md
      agent sessions export parser > parser.json
      agent sessions export parser --format html -o parser.html
    """
    from agentcli.cli.builders import redactor

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


def import_sessions(
    path: Annotated[
        Path,
        argument(
            "PATH", "Folder of a session, tar or zip of one, or what export wrote (json, jsonl)."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Import a session from elsewhere, as a new one.

    It gets a new id. Approvals given in it have no force here, and none of its files is trusted.

    Examples:
      agent sessions import parser.json
    """
    from agentcli.cli.builders import redactor

    imported = import_session(home(), path, redactor())
    session_id = imported.folder.name
    if as_json:
        facts = session_as_dict(imported.folder, state_of(imported.folder))
        print(json.dumps({**facts, "notes": list(imported.notes)}, indent=2))
        return
    for note in imported.notes:
        say_note(note)
    print(session_id)


_STORE = "files, sqlite:///PATH or postgresql://USER@HOST/NAME"


def copy(
    to: Annotated[str, option("--to STORE", f"{_STORE}.")],
    sessions: Annotated[
        list[str] | None, argument("SESSION", "Ids, unique starts of ids, or names.")
    ] = None,
    everything: Annotated[bool, option("--all, -a", "Every session.")] = False,
    source: Annotated[
        str | None, option("--from STORE", "Not the store that the settings name.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Copy sessions to another store: files, or a database.

    Their children, the sessions that they delegated to, are copied too. Each session is copied
    completely or not at all, then read back and compared. Copying again adds only what is new;
    nothing is removed. Exits 1 when one can't be copied.

    Examples:
      agent sessions copy --all --to postgresql://me@db.example.org/agent
      agent sessions copy parser --from sqlite:///~/sessions.db --to files
    """
    if bool(sessions) == everything:
        raise UsageError("which sessions?", hint="name some, or all of them: --all")
    if source is not None:
        set_store_selector(lambda home: source)
    theirs, ours = library_of(home()), library_at(home(), to)
    if theirs.shown == ours.shown:
        raise UsageError(f"the sessions are already in {ours.shown}")
    copied: list[Copied] = []
    failures = 0
    with working("copying"):
        for session_id in _ids_of(sessions):
            try:
                copied.append(copy_session(home(), session_id, theirs, ours))
            except AgentError as error:
                failures += 1
                told = error.message
                told = told if session_id in told else f"session {session_id}: {told}"
                print_error(told, error.hint)
    if as_json:
        rows = [asdict(each) for each in copied]
        print(json.dumps({"to": ours.shown, "sessions": rows, "failed": failures}, indent=2))
    else:
        for each in copied:
            print(f"{each.session_id}  {_outcome(each)}")
        print(f"{count(sum(bool(each.new) for each in copied), 'session')} copied to {ours.shown}")
    return 1 if failures else 0


def _outcome(copied: Copied) -> str:
    if not copied.events:
        return "has no events"
    return count(copied.new, "new event") if copied.new else "already exists"


def _ids_of(sessions: list[str] | None) -> list[str]:
    """Return the ids of the named sessions with their children, or of all sessions."""
    every = list(session_states(home()))
    if not sessions:
        return [folder.name for folder, _ in every]
    tree = SessionTree(every)
    named = [find(home(), session).name for session in sessions]
    below = (folder.name for each in named for folder, _ in tree.descendants(each))
    return list(dict.fromkeys([*named, *below]))


def repair(
    session: OneSession,
    dry_run: Annotated[bool, option("--dry-run", "Only say what would be done.")] = False,
    as_json: Json = False,
) -> None:
    """Make a damaged session usable again.

    Events that a page of its cache still holds are restored. From the first lost event on, the rest
    is moved to events.bad/ in the session's folder.

    Examples:
      agent sessions repair parser
    """
    folder = find(home(), session)
    done = repair_session(folder, dry_run=dry_run)
    if as_json:
        print(json.dumps({"session_id": folder.name, "dry_run": dry_run, **asdict(done)}))
        return
    if done.fault is None:
        print(f"{folder.name} is not damaged")
        return
    would = "would be " if dry_run else ""
    say(done.fault)
    for event_id in done.restored:
        print(f"event {event_id} {would or 'was '}restored from the cache")
    if done.set_aside:
        first, last = done.set_aside[0], done.set_aside[-1]
        print(f"events {first} to {last} {would or 'were '}moved to {folder / 'events.bad'}")
