"""When the workspace is snapshotted: before each step that may change it, and after the last."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from agentcli.errors import SessionError
from agentcli.events import Action
from agentcli.events.observations import CheckpointObservation
from agentcli.files.access_scope import LARGEST_COVERED, Coverage
from agentcli.files.names import is_generated
from agentcli.files.written_places import written_places
from agentcli.system import programs

if TYPE_CHECKING:
    from agentcli.checkpoints.snapshots import Checkpoint, Checkpoints

Moment = Literal["before_step", "turn_end"]
_Result = TypeVar("_Result")
_TICK_S = 0.1
_MOST_CHANGED = 1_000

log = logging.getLogger(__name__)


class Checkpointer:
    """`checkpoints` gives the store when it is first needed, `may_change` says whether an action
    may change files of the workspace, `touched` which files it is certain to change, `last_tree`
    the newest snapshot on record, "" for none."""

    def __init__(
        self,
        checkpoints: Callable[[], Checkpoints],
        may_change: Callable[[Action], bool],
        touched: Callable[[Action], Iterable[Path]],
        last_tree: Callable[[], str] = lambda: "",
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
        """What can be brought back later. A snapshot is taken if there is none of this process."""
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
        """The checkpoint to record before `actions` of step `step` are carried out: one a step.

        None when there is no need for one, or it can't be made and this has been told before.
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
        """The workspace as the turn left it, if a step may have changed it since the last."""
        if not self._changed_since or self._failure:
            return None
        self._changed_since = False
        return self._take("turn_end", (), alive)

    def may_have_changed(self) -> None:
        """Something else than a step has run in the workspace since the last checkpoint, if one was
        taken: the turn's end needs another."""
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
        """With the files that differ from the snapshot `before`."""
        if before in ("", made.tree):
            return made, ()
        assert self._checkpoints is not None
        try:
            changes = self._checkpoints.changes(before, made.tree)
        except SessionError as error:
            log.warning("what changed is not known: %s", error.message)
            return made, None
        named = (change.path for change in changes if not change.told)
        return made, tuple(
            islice((path for path in named if not is_generated(path)), _MOST_CHANGED)
        )

    def _in_thread(self, work: Callable[[], _Result], alive: Callable[[], None]) -> _Result:
        """So that the main thread can show that it lives, and be interrupted."""
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
        """An interrupted checkpoint may still be at work when the next one is to be made."""
        while self._worker is not None:
            self._worker.join(_TICK_S)
            if self._worker.is_alive():
                alive()
            else:
                self._worker = None


def checkpoints_of(folder: Path, workspace: str) -> Checkpoints:
    """The snapshots of the session in `folder`, a folder of one below the agent's home; the module
    comes with the first use."""
    from agentcli.checkpoints.snapshots import Checkpoints

    programs.distrust((workspace, *written_places(folder.parent.parent)))
    return Checkpoints(Path(workspace), folder / "checkpoints", folder.parent.parent)
