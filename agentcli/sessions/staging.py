"""Unfinished folders: sessions being created, forked or removed, file copies being made for a
session, and temporary copies.

Lasting folders are built under a temporary name and then renamed. The next command removes what a
killed process left, or finishes it if only the renaming was missing.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from agentcli.errors import AgentError, SessionError
from agentcli.events import Event, event_to_dict
from agentcli.events.observations import AgentStateChangedObservation
from agentcli.events.texts import compact_json
from agentcli.interrupts import shield
from agentcli.sessions.event_log import PAGE, event_path
from agentcli.sessions.file_store import SESSIONS, FileStore
from agentcli.sessions.library import library_of, store_of
from agentcli.sessions.session import read_session
from agentcli.sessions.state import TRANSITIONS, AgentState, fold
from agentcli.sessions.store import Library, SessionLock, Store
from agentcli.workspace.private import REMOVAL_S, dump_json, remove_tree

_SCRAP = "sessions.scrap"
_NAME = re.compile(r"(.+)-[0-9a-f]{8}", re.ASCII | re.DOTALL)
_UNLOCKED = "new-"
"""Name prefix of folders that are not locked yet."""
_DOOMED = "gone-"
"""Name prefix of removed sessions."""
BEING_CREATED_S = 60
"""A folder this young that has no lock may belong to a session that is just being created."""
_UPKEEP_S = 1.0
"""What a removal that a killed process left may take of a command's time; the next one goes on."""
_DRAFT = "draft.json"
_SCRATCH = "scratch"


@contextmanager
def staging(home: Path, session_id: str, library: Library | None = None) -> Iterator[Path]:
    """Yield an empty, locked folder in which to assemble a session as files. When the block
    succeeds, it becomes the session `session_id` of `library` (None: the one from the settings);
    otherwise it is removed."""
    with _staged(home, session_id) as (folder, undo):
        yield folder
        (library or library_of(home)).adopt(folder, session_id)
        undo.pop_all()


@contextmanager
def _staged(home: Path, name: str) -> Iterator[tuple[Path, ExitStack]]:
    """Yield an empty, locked folder and the stack that removes it, unless that is cancelled."""
    folder = _new_place(home, name)
    unlocked = folder.with_name(f"{_UNLOCKED}{secrets.token_hex(4)}")
    unlocked.mkdir(mode=0o700)
    with SessionLock(unlocked), ExitStack() as undo:
        unlocked.rename(folder)
        undo.callback(force_rmtree, folder)
        yield folder, undo


@dataclass(frozen=True)
class Scratch:
    """Two private, empty folders: `own` is in the agent's home and for the agent alone; `files` may
    be shown to commands and written by them."""

    own: Path
    files: Path


@contextmanager
def scratch(home: Path, place: Path) -> Iterator[Scratch]:
    """Yield two folders that are removed however the block ends; `files` is created in `place`.
    Raises SessionError where that is not possible."""
    with ExitStack() as undo:
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            own, _ = undo.enter_context(_staged(home, _SCRATCH))
            files = place / own.name
            dump_json(own / _DRAFT, asdict(_Draft(str(files), str(files), is_new=True)))
            undo.callback(_remove_used, files)
            files.mkdir(mode=0o700)
        except OSError as error:
            raise SessionError(f"a copy can't be made in {place}: {error.strerror}") from error
        yield Scratch(own, files)


@dataclass(frozen=True)
class _Draft:
    """A folder of files being made: `folder` is where it is made, `target` where it belongs.
    `is_new` means that nothing was at `target`, `whole` that only the renaming is missing."""

    folder: str
    target: str
    is_new: bool
    whole: bool = False


@contextmanager
def drafting(staged: Path, target: Path) -> Iterator[Path]:
    """Yield a path at which to make a folder, beside `target`, or inside it if that is already an
    empty folder. The contents belong to the session in `staged`: they move to `target` when the
    block succeeds, otherwise they are removed.

    Raises SessionError where no such folder can be made.
    """
    is_new = not os.path.lexists(target)
    name = f".{target.name}-{staged.name}" if is_new else f".{staged.name}"
    draft = _Draft(str((target.parent if is_new else target) / name), str(target), is_new)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        dump_json(staged / _DRAFT, asdict(draft))
        with ExitStack() as undo:
            undo.callback(force_rmtree, Path(draft.folder))
            yield Path(draft.folder)
            dump_json(staged / _DRAFT, asdict(replace(draft, whole=True)))
            _put_in_place(draft)
            undo.pop_all()
    except OSError as error:
        raise SessionError(f"{target} can't be created: {error.strerror}") from error


def sweep(home: Path, failed: Callable[[Exception], object]) -> list[str]:
    """Remove or finish what killed processes left behind. Return what a user should know about it.
    What can't be removed stays for the next time; any other failure is passed to `failed`."""
    try:
        left = [entry for entry in (home / _SCRAP).iterdir() if _is_ours(entry)]
    except OSError:
        return []
    messages: list[str] = []
    for entry in left:
        try:
            with suppress(OSError, AgentError), SessionLock(entry):
                messages += _swept(home, entry)
        except Exception as error:
            failed(error)
    return messages


def set_aside(home: Path, folder: Path, names: Sequence[str] | None = None) -> Path:
    """Take a session off the list of sessions at once, with only these `names` of its folder if
    some are given. Return its new place, for removal."""
    doomed = _new_place(home, f"{_DOOMED}{folder.name}")
    if names is None:
        folder.rename(doomed)
        return doomed
    doomed.mkdir(mode=0o700)
    for name in names:
        if os.path.lexists(folder / name):
            (folder / name).rename(doomed / name)
    return doomed


def force_rmtree(folder: Path, limit_s: float = REMOVAL_S) -> None:
    """Remove a tree, however deep, including folders whose permissions forbid it. Raises OSError if
    something stays, also when the time is up."""
    remove_tree(folder, limit_s)
    if os.path.lexists(folder):
        raise OSError(errno.ENOTEMPTY, "something in it can't be removed", str(folder))


def _remove_used(folder: Path) -> None:
    """Remove whatever commands have created there, as far as possible."""
    with shield():
        remove_tree(folder)


def _new_place(home: Path, name: str) -> Path:
    scrap = home / _SCRAP
    scrap.mkdir(mode=0o700, parents=True, exist_ok=True)
    return scrap / f"{name}-{secrets.token_hex(4)}"


def _is_ours(entry: Path) -> bool:
    if entry.is_symlink() or not entry.is_dir():
        return False
    if entry.name.startswith(_UNLOCKED):
        return time.time() - entry.lstat().st_mtime > BEING_CREATED_S
    return _NAME.fullmatch(entry.name) is not None


def _swept(home: Path, entry: Path) -> Iterator[str]:
    draft = None if entry.name.startswith(_DOOMED) else _noted(entry)
    named = _NAME.fullmatch(entry.name)
    if draft is None and named is not None and _is_adopted(home, entry, named[1]):
        library_of(home).adopt(entry, named[1])
    elif draft is None or named is None:
        force_rmtree(entry, _UPKEEP_S)
    elif draft.whole and _can_be_put_in_place(draft):
        _put_in_place(draft)
        library_of(home).adopt(entry, named[1])
        yield f"finished the copy {named[1]}, which had been interrupted; its files: {draft.target}"
    else:
        force_rmtree(Path(draft.folder), _UPKEEP_S)
        force_rmtree(entry, _UPKEEP_S)
        yield f"removed the unfinished copy {draft.target}, which had been interrupted"


def _is_adopted(home: Path, entry: Path, session_id: str) -> bool:
    """Whether the session's events are in a database already, so that only its folder is
    missing."""
    folder = home / SESSIONS / session_id
    is_doomed = entry.name.startswith(_DOOMED)
    return not is_doomed and not folder.exists() and store_of(folder).exists()


def _noted(staged: Path) -> _Draft | None:
    with suppress(OSError, ValueError, TypeError):
        return _Draft(**json.loads((staged / _DRAFT).read_bytes()))
    return None


def _put_in_place(draft: _Draft) -> None:
    """Move a draft to its target, also one that a killed process had moved only in part."""
    folder, target = Path(draft.folder), Path(draft.target)
    if not os.path.lexists(folder):
        return
    if draft.is_new:
        folder.rename(target)
        return
    for entry in list(folder.iterdir()):
        entry.rename(target / entry.name)
    folder.rmdir()


def _can_be_put_in_place(draft: _Draft) -> bool:
    """Whether the target is still free."""
    folder, target = Path(draft.folder), Path(draft.target)
    if not os.path.lexists(folder):
        return target.is_dir()
    if draft.is_new:
        return not os.path.lexists(target)
    return not any(os.path.lexists(target / entry.name) for entry in folder.iterdir())


def copy_events(original: Path, copy: Path, last: int, further: Sequence[Event]) -> None:
    """Write events 0 to `last` of the session in `original`, followed by the `further` ones, as
    files into the empty folder `copy`. A turn in progress at that point is paused in the copy.

    Raises SessionError when they can't be written.
    """
    try:
        (copy / "events").mkdir(mode=0o700)
        theirs = store_of(original)
        if isinstance(theirs, FileStore):
            for event_id in range(last + 1):
                _copy(event_path(original, event_id), event_path(copy, event_id))
        else:
            write_events(copy, theirs, last + 1)
        events = list(further)
        if AgentState.PAUSED in TRANSITIONS[fold(read_session(copy).events).agent_state]:
            paused = AgentStateChangedObservation(agent_state=AgentState.PAUSED, reason="forked")
            events.insert(0, paused)
        now = datetime.now(UTC)
        numbered = [
            (number, event.model_copy(update={"id": number, "timestamp": now}))
            for number, event in enumerate(events, last + 1)
        ]
        with closing(FileStore(copy).open()) as store:
            store.append([(n, compact_json(event_to_dict(event))) for n, event in numbered])
    except OSError as error:
        raise SessionError(f"{copy} can't be written: {error.strerror}") from error


def write_events(folder: Path, source: Store, count: int) -> None:
    """Write the first `count` events of `source` as files of the session in `folder`, which has no
    events yet and is synced as a whole by the caller. Raises SessionError, OSError."""
    with closing(FileStore(folder, durable=False).open()) as store:
        for start in range(0, count, PAGE):
            records = source.read(range(start, min(start + PAGE, count)))
            store.append([(record["id"], compact_json(record)) for record in records])


def _copy(source: Path, target: Path) -> None:
    """Link one file into both sessions where possible, since events never change."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copyfile(source, target, follow_symlinks=False)
        target.chmod(0o600)
