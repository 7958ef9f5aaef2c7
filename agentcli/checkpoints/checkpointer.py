"""When to snapshot the workspace: before each step that may change it, and after the last."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from agentcli.errors import SessionError
from agentcli.events import Action
from agentcli.events.observations import CheckpointObservation
from agentcli.system import programs
from agentcli.workspace.names import is_generated
from agentcli.workspace.private import writable_paths
from agentcli.workspace.scope import LARGEST_COVERED, Coverage

if TYPE_CHECKING:
    from agentcli.checkpoints.snapshots import Checkpoint, Checkpoints

Moment = Literal["before_step", "turn_end"]
_Result = TypeVar("_Result")
_TICK_S = 0.1
_MOST_CHANGED = 1_000

log = logging.getLogger(__name__)


class Checkpointer:
    """`checkpoints` returns the store when it is first needed. `may_change` says whether an action
    may change files of the workspace, `touched` which files it is certain to change, and
    `last_tree` the newest snapshot on record, "" for none."""

    def __init__(
        self,
        checkpoints: Callable[[], Checkpoints],
        may_change: Callable[[Action], bool],
        touched: Callable[[Action], Iterable[Path]],
        last_tree: Callable[[], str],
    ) -> None:
        self._open = checkpoints
        self._last_tree = last_tree
        self._checkpoints: Checkpoints | None = None
        self._may_change = may_change
        self._touched = touched
        self._step = -1
        self._changed_since = False
        self._failure = ""
        self._first: Checkpoint | None = None
        self._coverage: Coverage | None = None
        self._worker: threading.Thread | None = None

    def coverage(self, alive: Callable[[], None]) -> Coverage:
        """Return what can be brought back later, after taking a snapshot if this process has
        none."""
        try:
            if self._first is None:
                self._first = self._in_thread(lambda: self._snapshot(()), alive)
            if self._coverage is None:
                assert self._checkpoints is not None
                left_out = self._checkpoints.left_out(self._first.tree)
                self._coverage = Coverage(self._checkpoints.root, left_out, LARGEST_COVERED)
        except SessionError as error:
            return Coverage(Path(), failure=error.message)
        return replace(self._coverage, failure=self._failure) if self._failure else self._coverage

    def before(
        self, actions: Sequence[Action], step: int, alive: Callable[[], None]
    ) -> CheckpointObservation | None:
        """Return the checkpoint to record before `actions` of step `step` are carried out, one per
        step.

        None when none is needed, or when it can't be made and that has been reported already.
        `alive` is called ten times a second while it takes long.
        """
        if step == self._step or not any(map(self._may_change, actions)):
            return None
        touched = [path for action in actions for path in self._touched(action)]
        kept = self._take("before_step", touched, alive)
        self._step = step
        self._changed_since = True
        return kept

    def at_turn_end(self, alive: Callable[[], None]) -> CheckpointObservation | None:
        """Return a checkpoint at the end of a turn if something may have changed since the last."""
        if not self._changed_since or self._failure:
            return None
        self._changed_since = False
        return self._take("turn_end", (), alive)

    def holds(self, path: Path, data: bytes) -> bool:
        """Whether the newest snapshot has the file at `path` with this content."""
        tree = self._last_tree()
        if not tree or self._failure or self._checkpoints is None:
            return False
        try:
            return self._checkpoints.holds(tree, Path(os.path.realpath(path)), data)
        except SessionError as error:
            log.warning("what the checkpoint holds is not known: %s", error.message)
            return False

    def may_have_changed(self) -> None:
        """Note that something other than a step has run in the workspace. If a checkpoint was taken
        before, the end of the turn needs another."""
        self._changed_since = self._step >= 0

    def _take(
        self, moment: Moment, touched: Sequence[Path], alive: Callable[[], None]
    ) -> CheckpointObservation | None:
        before, thorough = self._last_tree(), moment == "turn_end"
        try:
            made, changed = self._in_thread(
                lambda: self._compared(before, self._snapshot(touched, thorough=thorough)), alive
            )
            self._first = self._first or made
        except SessionError as error:
            told_before, self._failure = self._failure == error.message, error.message
            log.warning("no checkpoint: %s", error.message)
            if told_before:
                return None
            return CheckpointObservation(content=error.message, moment=moment)
        self._failure = ""
        return CheckpointObservation(
            tree=made.tree, moment=moment, left_out=made.left_out, changed=changed
        )

    def _snapshot(self, touched: Sequence[Path], *, thorough: bool = False) -> Checkpoint:
        self._checkpoints = self._checkpoints or self._open()
        again = thorough and self._checkpoints.has_few_objects
        return self._checkpoints.take(touched, thorough=again)

    def _compared(self, before: str, made: Checkpoint) -> tuple[Checkpoint, tuple[str, ...] | None]:
        """Return the checkpoint with the files that differ from the snapshot `before`."""
        if before in ("", made.tree):
            return made, ()
        assert self._checkpoints is not None
        try:
            changes = self._checkpoints.changes(before, made.tree)
        except SessionError as error:
            log.warning("what changed is not known: %s", error.message)
            return made, None
        named = (change.path for change in changes if not change.git_description)
        return made, tuple(
            islice((path for path in named if not is_generated(path)), _MOST_CHANGED)
        )

    def _in_thread(self, work: Callable[[], _Result], alive: Callable[[], None]) -> _Result:
        """Run `work` in a thread, so that the main thread can show progress and be interrupted."""
        results: list[_Result | BaseException] = []

        def do() -> None:
            try:
                results.append(work())
            except BaseException as error:
                results.append(error)

        self._join(alive)
        self._worker = threading.Thread(target=do, name="checkpoint", daemon=True)
        self._worker.start()
        self._join(alive)
        [result] = results
        if isinstance(result, BaseException):
            raise result
        return result

    def _join(self, alive: Callable[[], None]) -> None:
        """Wait for the worker. An interrupted checkpoint may still run when the next one is due."""
        while self._worker is not None:
            self._worker.join(_TICK_S)
            if self._worker.is_alive():
                alive()
            else:
                self._worker = None


def checkpoints_of(folder: Path, workspace: str) -> Checkpoints:
    """Return the snapshots of the session in `folder`, which is two levels below the agent's home.
    The module is loaded at the first use."""
    from agentcli.checkpoints.snapshots import Checkpoints

    programs.distrust((workspace, *writable_paths(folder.parent.parent)))
    return Checkpoints(Path(workspace), folder / "checkpoints", folder.parent.parent)
