"""Snapshots of a workspace, any of which can be brought back exactly.

Never touches the state of a repository in the workspace, and needs none.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeGuard

from agentcli.runtime.names import GENERATED
from agentcli.runtime.snapshot_git import CheckpointError
from agentcli.runtime.snapshot_objects import EMPTY_TREE, ObjectStore
from agentcli.runtime.snapshot_repository import ObjectLinks, link_or_copy, publish_links
from agentcli.runtime.snapshot_restore import Restorer
from agentcli.runtime.snapshot_scan import REPOSITORY
from agentcli.runtime.snapshot_take import Taker
from agentcli.runtime.snapshot_trees import Difference, Entry, Trees, with_parents

__all__ = ["Change", "Checkpoint", "CheckpointError", "Checkpoints"]

Kind = Literal["added", "modified", "deleted", "mode"]
_TREE = re.compile(r"[0-9a-f]{40}")
_NAMED_FAILURES = 5
# What is ours or a repository's own is no change of the workspace.
_SHOWN = (
    ".",
    ":(exclude,top)%left-out",
    ":(exclude,glob,icase)**/%.git/**",
    *(f":(exclude,glob)**/{name}/**" for name in sorted(GENERATED)),
)


@dataclass(frozen=True)
class Change:
    """`path` is relative to the workspace; bytes that are no UTF-8 are surrogates in it."""

    path: str
    kind: Kind


@dataclass(frozen=True)
class Checkpoint:
    tree: str
    """The id of the snapshot, 40 hexadecimal digits."""
    left_out: tuple[str, ...]
    """What newly is not in it, in words: `data/big.bin (1.2 GB)`."""


class Checkpoints:
    """Snapshots of one workspace in a store of their own, a folder that only this writes.

    Files and folders with their permission bits, symlinks and empty folders are in them, ignored
    and untracked files too. Not in them: special files, files over 50 MB, large folders that git
    ignores (without git: those that tools fill again), owners, times, extended attributes. What a
    snapshot left out, restoring it doesn't touch. A `.git` is in it but restored only when gone.

    Every method raises CheckpointError.
    """

    def __init__(self, workspace: Path, store: Path) -> None:
        self._workspace = Path(os.path.realpath(workspace))
        self._store = Path(os.path.realpath(store))
        self._objects = ObjectStore(self._store)
        self._trees = Trees(self._objects)
        self._taker = Taker(self._workspace, self._objects)

    def take(self, touched: Iterable[Path] = ()) -> Checkpoint:
        """A snapshot of the workspace as it is. `touched` paths are in it wherever they are, from
        now on; relative ones are relative to the workspace."""
        with self._errors("take a checkpoint"):
            self._refuse_what_is_no_project()
            tree, left_out = self._taker.take(touched)
        return Checkpoint(tree.hex(), left_out)

    def changes(self, old: str, new: str) -> list[Change]:
        """What differs, by path. A `.git` is one path, and only named if it came or went."""
        with self._errors("compare checkpoints"):
            return list(self._changes(_oid(old), _oid(new)))

    def paths(self, old: str, new: str, *, folder_modes: bool = True) -> set[str]:
        """Every path that differs, for `restore`: folders too, without `folder_modes` only those
        that came, went or were something else. A `.git` is one path."""
        with self._errors("compare checkpoints"):
            return {
                os.fsdecode(_repository_of(difference.path) or difference.path)
                for difference in self._trees.compare(_oid(old), _oid(new))
                if folder_modes or not (_is_folder(difference.old) and _is_folder(difference.new))
            }

    def diff(self, old: str, new: str) -> str:
        """A unified diff as `git diff` prints it, empty if nothing differs; bytes that are no
        UTF-8 are surrogates in it. What tools generate is not in it."""
        before, after = _oid(old), _oid(new)
        with self._errors("compare checkpoints"):
            for tree in (before, after):
                self._trees.folder(tree)
            arguments = ("diff-tree", "-r", "-p", "-M", "--no-ext-diff", "--no-textconv")
            printed = self._objects.git.run(*arguments, "--no-color", old, new, "--", *_SHOWN)
        return printed.decode(errors="surrogateescape")

    def restore(self, tree: str, paths: Collection[str] | None = None) -> list[Change]:
        """Brings the workspace, or these paths, to the state of `tree`; a folder that should not
        be there stays if something else is in it. Returns what it changed. What is there now is
        lost unless a checkpoint was taken; what `tree` left out is not touched.

        A CheckpointError in the middle names what was not restored; calling it again goes on.
        """
        target = _oid(tree)
        with self._errors("restore a checkpoint"):
            self._refuse_what_is_no_project()
            left_out = self._trees.left_out(target)
            self._workspace.mkdir(parents=True, exist_ok=True)
            now = self._taker.take()[0]
            closed: set[bytes] = set()
            while not closed >= self._taker.unreadable_folders:
                closed |= self._taker.unreadable_folders
                self._open_folders(target, closed, paths)
                now = self._taker.take()[0]
            differences = [
                difference
                for difference in _only(self._trees.compare(now, target), paths)
                if not (difference.new is None and left_out.covers(difference.path))
            ]
            return self._apply(self._workspace, differences)

    def write_out(self, tree: str, folder: Path) -> list[str]:
        """A copy of the workspace as in `tree` in `folder`, which is empty or made. Returns what
        people should know about the copy."""
        target = _oid(tree)
        with self._errors("copy a checkpoint"):
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise CheckpointError(f"{folder} is not empty")
            differences = list(self._trees.compare(EMPTY_TREE, target))
            notes = [
                f"{path.decode(errors='replace')} is not in the copy"
                for path in sorted(self._trees.left_out(target).paths)
            ]
            elsewhere = {d.path for d in differences if _is_pointer(d)}
            for path in sorted(elsewhere):
                name = path.decode(errors="replace")
                notes.append(f"{name} is not in the copy: its repository is elsewhere")
            self._apply(folder, [d for d in differences if d.path not in elsewhere])
        return notes

    def copy_to(self, store: Path, trees: Sequence[str]) -> None:
        """Makes `store`, a new one, hold all that `trees` need; hard links where possible."""
        roots = [_oid(tree) for tree in trees]
        with self._errors("copy checkpoints"):
            target = ObjectStore(store)
            target.create()
            for oid in self._trees.reachable(roots):
                source = self._objects.loose(oid)
                if source.exists():
                    target.loose(oid).parent.mkdir(mode=0o700, exist_ok=True)
                    _copy(source, target.loose(oid))
            # An index comes after its pack, which it promises.
            for source in sorted(self._store.glob("objects/pack/pack-*"), reverse=True):
                _copy(source, store / source.relative_to(self._store))
            for source in self._store.glob("repositories/*/objects"):
                copy = store / source.relative_to(self._store)
                copy.mkdir(mode=0o700, parents=True, exist_ok=True)
            for source in self._store.glob("repositories/*/objects/*/*"):
                copy = store / source.relative_to(self._store)
                copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _copy(source, copy)
            publish_links(store)

    # --- parts ----------------------------------------------------------------------------------

    def _changes(self, old: bytes, new: bytes) -> Iterator[Change]:
        if old == new:
            return
        then, now = self._trees.left_out(old), self._trees.left_out(new)
        for difference in self._trees.compare(old, new):
            kind = _kind(difference)
            # What only one of them looked at is not known to differ.
            unseen = then if kind == "added" else now
            if kind is not None and not (
                kind in ("added", "deleted") and unseen.covers(difference.path)
            ):
                yield Change(os.fsdecode(difference.path), kind)

    def _apply(self, top: Path, differences: list[Difference]) -> list[Change]:
        plain = [d for d in differences if _repository_of(d.path) is None]
        missing: dict[bytes, list[Difference]] = {}
        for difference in differences:
            repository = _repository_of(difference.path)
            if repository is not None and difference.new is not None:
                missing.setdefault(repository, []).append(difference)
        gone = {p: ds for p, ds in missing.items() if not os.path.lexists(top / os.fsdecode(p))}
        links = ObjectLinks(self._workspace, self._store)
        with Restorer(top, self._objects) as restorer:
            restorer.apply(plain + [ds[0] for ds in gone.values() if not _is_folder(ds[0].new)])
            for path, content in gone.items():
                if _is_folder(content[0].new):
                    restorer.bring_repository(path, content, links.folder(path))
        wanted = plain + [d for content in gone.values() for d in content]
        stays = restorer.failures.keys() | restorer.kept
        done = [d for d in wanted if d.path not in stays]
        if restorer.failures:
            raise _incomplete(len(done), len(wanted), restorer.failures)
        shown = sorted((d.path, _kind(d)) for d in done if _repository_of(d.path) in (None, d.path))
        return [Change(os.fsdecode(path), kind) for path, kind in shown if kind is not None]

    def _open_folders(
        self, target: bytes, closed: Collection[bytes], paths: Collection[str] | None
    ) -> None:
        """Gives folders that can't be read the modes that they have in `target`."""
        found = [(path, self._trees.find(target, path)) for path in sorted(closed)]
        differences = [Difference(path, entry, entry) for path, entry in found if _is_folder(entry)]
        with Restorer(self._workspace, self._objects) as restorer:
            restorer.apply(list(_only(differences, paths)))

    def _refuse_what_is_no_project(self) -> None:
        home = os.path.expanduser("~")  # noqa: PTH111 (Path's own fails where there is no home)
        if self._workspace in (Path("/"), Path(os.path.realpath(home))):
            raise CheckpointError(
                f"{self._workspace} is no project, so that it has no checkpoints",
                hint="start in the folder of one project to have checkpoints",
            )

    @contextlib.contextmanager
    def _errors(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            where = os.fsdecode(error.filename) if error.filename else str(self._store)
            raise CheckpointError(f"can't {doing}: {error.strerror} ({where})") from error
        finally:
            self._objects.close()


def _oid(tree: str) -> bytes:
    if not _TREE.fullmatch(tree):
        raise CheckpointError(f"{tree!r} is no checkpoint")
    return bytes.fromhex(tree)


def _kind(difference: Difference) -> Kind | None:
    """None for what is told by the paths below it, or is a repository's own."""
    path, old, new = difference
    repository = _repository_of(path)
    if repository is not None and (repository != path or (old and new)):
        return None
    if old is None or new is None:
        entry = old or new
        told_below = repository is None and _is_folder(entry) and entry.oid != EMPTY_TREE
        kind: Kind = "added" if old is None else "deleted"
        return None if told_below else kind
    same_type = stat.S_IFMT(old.mode) == stat.S_IFMT(new.mode)
    return "mode" if same_type and (old.is_folder or old.oid == new.oid) else "modified"


def _is_folder(entry: Entry | None) -> TypeGuard[Entry]:
    return entry is not None and entry.is_folder


def _is_pointer(difference: Difference) -> bool:
    """A `.git` that is a file names a repository elsewhere, which a copy must not share."""
    is_repository = _repository_of(difference.path) == difference.path
    return is_repository and difference.new is not None and not difference.new.is_folder


def _repository_of(path: bytes) -> bytes | None:
    """The outermost `.git` that `path` is or lies in."""
    if REPOSITORY not in path:
        return None
    return next((p for p in with_parents(path) if p.rpartition(b"/")[2] == REPOSITORY), None)


def _only(differences: Iterable[Difference], paths: Collection[str] | None) -> Iterator[Difference]:
    """Those of `paths`, a `.git` being one, and of the folders that have to be there for them to
    be; all if None."""
    wanted = {os.fsencode(path) for path in paths or ()}
    above = {folder for path in wanted for folder in with_parents(path)}
    for difference in differences:
        missing = _is_folder(difference.new) and not _is_folder(difference.old)
        is_wanted = (_repository_of(difference.path) or difference.path) in wanted
        if paths is None or is_wanted or (missing and difference.path in above):
            yield difference


def _copy(source: Path, target: Path) -> None:
    link_or_copy(source, target, sys.maxsize)


def _incomplete(done: int, wanted: int, failures: dict[bytes, str]) -> CheckpointError:
    named = [f"{p.decode(errors='replace')} ({why})" for p, why in sorted(failures.items())]
    shown = ", ".join(named[:_NAMED_FAILURES])
    more = len(named) - _NAMED_FAILURES
    rest = f" and {more} more" if more > 0 else ""
    return CheckpointError(
        f"{done} of {wanted} paths are restored, not: {shown}{rest}",
        hint="see what is in the way, then try again: what is restored stays so",
    )
