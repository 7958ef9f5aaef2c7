"""What a session is kept in, whatever that is: files, or a database.

A `Store` is one session's; a `Library` has all those of a home. A session is known by its folder,
`<home>/sessions/<id>`, wherever its events are: what is too large for them, snapshots, logs and the
inbox are files in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from agentcli.errors import SessionError
from agentcli.sessions.state import State


@dataclass(frozen=True)
class StoredLog:
    """`records` are the JSON objects of events 0, 1, 2 …; `torn` is a damaged last file that was
    left out, `fault` names what is wrong before the end and makes the session unfit for writing;
    `stale_pages` are the first ids of pages to be made anew."""

    records: list[dict[str, Any]]
    torn: Path | None = None
    fault: str | None = None
    stale_pages: tuple[int, ...] = ()


@dataclass(frozen=True)
class Holder:
    """The process that writes to a session."""

    pid: int
    host: str
    is_here: bool = True
    """On this machine."""


class Lock(Protocol):
    """The right to write to a session; of one process at a time."""

    def release(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...


class Store(Protocol):
    """The events of one session as JSON objects, numbered from 0. Each is there whole or not at
    all, and never changes."""

    exhausted: SessionError | None
    """Set when there was only just room for the last event: nothing after it may be acted on."""

    def exists(self) -> bool:
        """Whether there is such a session."""

    def check(self) -> None:
        """Raises SessionError when there is no such session or it is another user's."""

    def create(self) -> Lock:
        """Make the session, of which there is nothing yet, and lock it. Raises SessionError; then
        there is nothing of it."""

    def lock(self) -> Lock:
        """For the one process that may append. Raises UsageError when another holds it."""

    def holder(self) -> Holder | None:
        """Who has it locked at this moment."""

    def read_log(self) -> StoredLog:
        """Every event that is intact up to the first fault. Raises SessionError when there is no
        such session or it is another user's."""

    def read(self, ids: range) -> Sequence[dict[str, Any]]:
        """These events, up to the first that is missing or damaged. Raises SessionError where no
        session can be read."""

    def count(self) -> int:
        """How many events there are, found at a cost that does not grow with them."""

    def stamp(self, event_id: int) -> str:
        """What an event can be told by from another of the same number; the same each time."""

    def load_state(self) -> State | None:
        """The state as it was kept with the newest events or some before; None if it has to be
        folded from all."""

    def open(self, log: StoredLog | None = None) -> Self:
        """Make ready to append, for whoever has the lock and has read `log`, None if it is new."""

    def append(
        self, records: Sequence[tuple[int, bytes]], state: State, *, barrier: bool = True
    ) -> None:
        """Write events durably; `state` is what the session then amounts to. Without `barrier` a
        crash of the computer may undo it until the next append: right for observations, which go
        before or with the next action.

        Raises SessionError when they can't be written, or an id is taken.
        """

    def save_state(self, state: State) -> None:
        """Keep what can be folded from the events, so that it need not be."""

    def close(self) -> None: ...

    def remove(self) -> None:
        """Take the events away, for whoever has the lock. Raises SessionError."""


class Library(Protocol):
    """All sessions of a home. Every method raises SessionError where they can't be reached."""

    shown: str
    """Where they are, for people; no secret."""
    places: Sequence[Path]
    """Files and folders outside of the home that hold them."""

    def store(self, folder: Path) -> Store:
        """That of the session in `folder`, which need not be there."""

    def states(self, workspace: str | None = None) -> Iterator[tuple[Path, State]]:
        """Every session with its state, of one workspace or of all, the one used last first; one
        that can't be read has an empty state."""

    def holders(self, session_ids: Iterable[str]) -> dict[str, Holder]:
        """Who has each of these locked at this moment, of those that are."""

    def stamps(self) -> Iterable[tuple[str, str]]:
        """The id of every session, and a text that is another one after each append; empty where
        that can't be told."""

    def close(self) -> None:
        """Let go of what is open; it is opened again where it is needed."""

    def take_in(self, made: Path, session_id: str) -> None:
        """Make a session of the folder `made`, which has all of it as files, durably and in one go.
        Raises SessionError when there is one of this id."""


def encode(record: dict[str, Any]) -> tuple[bytes, bool]:
    """Compact JSON in UTF-8, and whether it is exact: lone surrogates become U+FFFD."""
    text = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    try:
        return text.encode(), True
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode(), False
