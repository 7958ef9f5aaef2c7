"""Finding sessions: by id, prefix or name, the newest, the tree of their children."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from agentcli.errors import UsageError
from agentcli.events import Event, event_from_dict
from agentcli.sessions.event_log import state_in
from agentcli.sessions.file_store import SESSIONS, is_session_id
from agentcli.sessions.library import library_of, store_of
from agentcli.sessions.state import State

_NEWEST = 300


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session and its state."""

    folder: Path
    state: State

    def fits(self, workspace: Path | None) -> bool:
        """Whether a user working in `workspace` (None: anywhere) may want to continue this
        session: it was given a task, and not by another session."""
        here = workspace is None or self.state.workspace == str(workspace)
        was_given = self.state.end_id >= 0 and bool(self.state.title)
        return here and was_given and self.state.delegated_by is None


def new_folder(home: Path) -> Path:
    """Return a free folder for a new session: `YYYYMMDD-HHMMSS-xxxx`, in local time."""
    while True:
        folder = home / SESSIONS / f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        if not folder.exists() and not exists(folder):
            return folder


def exists(folder: Path) -> bool:
    """Whether the session of this folder exists."""
    return store_of(folder).exists()


def session_states(home: Path, workspace: str | None = None) -> Iterator[tuple[Path, State]]:
    """Yield every session of one workspace or of all with its state, the last used first. An
    unreadable session has an empty state."""
    return library_of(home).states(workspace)


class SessionTree:
    """Sessions together with the children that they delegated to."""

    def __init__(self, every: Iterable[tuple[Path, State]]) -> None:
        self._every = list(every)
        self._children: dict[str, list[tuple[Path, State]]] = {}
        ids = {folder.name for folder, _ in self._every}
        for folder, state in self._every:
            if state.delegated_by in ids:
                self._children.setdefault(str(state.delegated_by), []).append((folder, state))

    def roots(self) -> Iterator[tuple[Path, State]]:
        """Yield, in the order given, the sessions that no other one here delegated to."""
        below = {folder for children in self._children.values() for folder, _ in children}
        return ((folder, state) for folder, state in self._every if folder not in below)

    def children(self, session_id: str) -> list[tuple[Path, State]]:
        """Return the session's own children, the earliest first."""
        found = self._children.get(session_id, [])
        return sorted(found, key=lambda child: (child[1].created_at, child[0]))

    def descendants(self, session_id: str) -> Iterator[tuple[Path, State]]:
        """Yield all descendants: each child followed by its own."""
        for folder, state in self.children(session_id):
            yield folder, state
            yield from self.descendants(folder.name)


def state_of(folder: Path) -> State:
    """Return a session's state: the cached one if it can be trusted, updated with the events
    recorded since. Raises SessionError."""
    return state_in(folder, store_of(folder))


def find(home: Path, wanted: str) -> Path:
    """Return the folder of the session with this id, unique prefix or name. Raises UsageError."""
    exact = home / SESSIONS / wanted
    if is_session_id(wanted) and store_of(exact).exists():
        return exact
    known = list(session_states(home))
    matches = [folder for folder, state in known if wanted and state.name == wanted][:1] or [
        folder for folder, _ in known if wanted and folder.name.startswith(wanted)
    ]
    if len(matches) == 1:
        return matches[0]
    if matches:
        names = ", ".join(folder.name for folder in matches[:5])
        raise UsageError(f"{wanted!r} matches several sessions: {names}")
    near = _near(wanted, known)
    hint = f"did you mean {' or '.join(near)}?" if near else "see them: agent sessions list"
    raise UsageError(f"there is no session {wanted!r}", hint=hint)


def newest(home: Path, workspace: Path | None) -> Path:
    """Return the last used session of this workspace (None: of any), ignoring children. Raises
    UsageError when there is none."""
    for found in offered(home, workspace):
        return found.folder
    raise no_session(workspace)


def offered(home: Path, workspace: Path | None) -> Iterator[FoundSession]:
    """Yield the sessions to choose from, of one workspace or, if None, of all: the last used first,
    without children."""
    for folder, state in session_states(home):
        found = FoundSession(folder, state)
        if found.fits(workspace):
            yield found


def no_session(workspace: Path | None) -> UsageError:
    """Return the error for when there is no session to choose from."""
    if workspace is None:
        return UsageError("there is no session yet", hint='start one: agent run "…"')
    return UsageError(
        f"there is no session in {workspace} yet",
        hint="those of other folders: agent resume --all, agent sessions list --all",
    )


def in_use_by(folder: Path) -> int | None:
    """Return the process on this machine that has the session open at this moment, or None."""
    holder = store_of(folder).holder()
    return holder.pid if holder and holder.is_here else None


def newest_events(folder: Path, state: State) -> list[Event]:
    """Return the last few hundred events of a session, oldest first, at a cost that does not grow
    with it. Raises SessionError."""
    first = max(0, state.end_id + 1 - _NEWEST)
    records = store_of(folder).read(range(first, state.end_id + 1))
    return [event_from_dict(record) for record in records]


def _near(wanted: str, known: Sequence[tuple[Path, State]]) -> list[str]:
    """Return up to three sessions whose name, title or id resembles `wanted`, by name if they have
    one."""
    labels: dict[str, str] = {}
    for folder, state in known:
        label = state.name or folder.name
        labels.setdefault(folder.name, folder.name)
        labels.setdefault(label.casefold(), label)
        labels.setdefault(state.title.casefold(), f"{label} ({state.title})")
    close = get_close_matches(wanted.casefold(), labels, n=3)
    return list(dict.fromkeys(labels[text] for text in close))


LONGEST_NAME = 60
_LIKE_AN_ID = re.compile(r"[0-9]{4,8}(-[0-9]{0,6}(-[0-9a-f]{0,4})?)?", re.ASCII)


def checked_name(name: str) -> str:
    """Return `name` stripped of surrounding blanks. Raises UsageError when it is not a valid
    name."""
    name = name.strip()
    if not name:
        raise UsageError("a name can't be empty")
    if len(name) > LONGEST_NAME:
        raise UsageError(f"a name can have at most {LONGEST_NAME} characters, not {len(name)}")
    if not name.isprintable() or "/" in name or name.startswith("-"):
        raise UsageError(
            f"{name!r} can't be a name",
            hint="it needs printable characters, without a slash or a leading dash",
        )
    if _LIKE_AN_ID.fullmatch(name):
        raise UsageError(f"{name!r} looks like the id of a session", hint="choose another name")
    return name


def named(home: Path, name: str, besides: Path | None = None) -> Path | None:
    """Return the session with this name, other than the one in `besides`."""
    states = session_states(home)
    return next((f for f, state in states if state.name == name and f != besides), None)


def free_name(home: Path, name: str, folder: Path | None = None) -> str:
    """Return `name` as `checked_name` does. Raises UsageError also when another session than the
    one in `folder` has it."""
    name = checked_name(name)
    if other := named(home, name, folder):
        raise UsageError(
            f"session {other.name} has the name {name!r}",
            hint=f"rename it first: agent sessions rename {other.name} NAME",
        )
    return name
