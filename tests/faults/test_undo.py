"""Killed at whatever moment, an undo, rewind, redo or fork leaves nothing untold and nothing half
made."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentcli.app.fork import fork
from agentcli.app.undo import rewind, undo
from agentcli.errors import UsageError
from agentcli.events.actions import MessageAction, RewindAction
from agentcli.sessions.history import unfinished_restore
from agentcli.sessions.session import SessionLog, read_session
from agentcli.sessions.staging import sweep
from tests.app.undoing import Walk, looks, sh
from tests.checkpoints.trees import killed_at

EVERY = 1 if "EVERY_CASE" in os.environ else 101
"""Of so many boundaries one is tried."""
STEP = "echo x > a; rm -rf d; mkdir -p n/m; echo n > n/m/f; git add -A; git commit -qm x; rm u"


@contextmanager
def walked() -> Iterator[Walk]:
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch) / "work"
        work.mkdir()
        sh(
            work,
            "git init -q; echo a > a; mkdir d; echo d > d/f; git add -A; git commit -qm first;"
            "echo s > a; git stash -q; echo u > u",
        )
        with Walk(Path(scratch) / "home" / "state", work) as walk:
            walk.steps([STEP])
            walk.states.append(looks(work))
        yield walk


def was_told(folder: Path, since: int) -> bool:
    """Whether the model knows that files may be others than it left."""
    new = read_session(folder).events[since:]
    return any(isinstance(event, MessageAction) for event in new)


WAYS = {
    "undo": lambda session, _: undo(session, 1),
    "rewind": lambda session, first: rewind(session, first, files=True, conversation=False),
    "rewind of the conversation too": lambda session, first: rewind(
        session, first, files=True, conversation=True
    ),
}


def go_back(walk: Walk, way: str) -> None:
    with SessionLog.open(walk.session.folder) as session:
        WAYS[way](session, 2)


def after_a_kill(walk: Walk, way: str, count: int) -> None:
    """What must hold after a process was killed in the middle of this."""
    folder = walk.session.folder
    at_end = walk.states[-1]
    with SessionLog.open(folder) as session:
        new = session.events[count:]
        done = [event for event in new if isinstance(event, RewindAction)]
        changed = looks(walk.workspace) != at_end
        if changed:
            told = [event for event in new if isinstance(event, MessageAction)]
            assert told or done[0].conversation, "the model does not know"
        if changed and not done:
            begun = unfinished_restore(session.events)
            assert begun is not None, "the person does not know"
            assert begun.command
        if not done:
            with contextlib.suppress(UsageError):
                WAYS[way](session, 2)
    assert looks(walk.workspace) == walk.states[0]
    with SessionLog.open(folder) as session:
        kept = next(e.id for e in session.events if getattr(e, "moment", "") == "before_rewind")
        rewind(session, kept, files=True, conversation=False)
    if not changed or done:
        assert looks(walk.workspace) == at_end


@pytest.mark.parametrize("way", WAYS)
def test_going_back_is_told_and_can_be_finished_at_every_boundary(way):
    at, went_on = 1, True
    while went_on:
        with walked() as walk:
            count = len(read_session(walk.session.folder).events)
            went_on = killed_at(at, lambda walk=walk: go_back(walk, way))
            after_a_kill(walk, way, count)
        at += EVERY
    assert at > 100


def test_redo_too():
    at, went_on = 1, True
    while went_on:
        with walked() as walk:
            folder = walk.session.folder
            with SessionLog.open(folder) as session:
                kept = undo(session, 1).kept_at
                count = len(session.events)

            def redo(folder: Path = folder, kept: int = kept) -> None:
                with SessionLog.open(folder) as session:
                    rewind(session, kept, files=True, conversation=False)

            went_on = killed_at(at, redo)
            with SessionLog.open(folder) as session:
                changed = looks(walk.workspace) != walk.states[0]
                assert was_told(folder, count) or not changed
            redo()
            assert looks(walk.workspace) == walk.states[-1]
        at += EVERY
    assert at > 100


@pytest.mark.parametrize("target", ["new", "empty", "deep/er/new"])
def test_a_fork_leaves_nothing_half_made(target):
    at, went_on = 1, True
    while went_on:
        with walked() as walk:
            home, folder = walk.home, walk.workspace.parent / target
            if target == "empty":
                folder.mkdir()

            def copy(walk: Walk = walk, folder: Path = folder) -> None:
                fork(walk.home, walk.session.folder, None, folder)

            went_on = killed_at(at, copy)
            sweep(home, pytest.fail)
            sessions = sorted(path.name for path in (home / "sessions").iterdir())
            assert list((home / "sessions.scrap").glob("[0-9]*")) == []
            assert not [p for p in walk.workspace.parent.rglob(".*-*") if "work" not in p.parts]
            if len(sessions) == 2:
                assert looks(folder) == walk.states[-1]
            else:
                assert not folder.exists() or list(folder.iterdir()) == []
                copy()
                assert looks(folder) == walk.states[-1]
        at += EVERY
    assert at > 100
