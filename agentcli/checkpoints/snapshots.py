"""Snapshots of a workspace, any of which can be restored exactly.

They include the state of its repositories: references, index, stash and the objects these need.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from agentcli.checkpoints.compare import Change, Comparison, Report
from agentcli.checkpoints.objects import EMPTY_TREE, CheckpointError, ObjectStore, object_id
from agentcli.checkpoints.pack_store import PackStore, link_or_copy
from agentcli.checkpoints.paths import (
    COMMON,
    Role,
    WorkspaceFolders,
    is_common,
    repository_of,
    role_of,
    save_place,
)
from agentcli.checkpoints.restore import Restorer, can_execute_code
from agentcli.checkpoints.take import SnapshotTaker
from agentcli.checkpoints.trees import LEFT_OUT, OUTSIDE, Difference, Trees, is_folder, with_parents
from agentcli.git.repositories import id_bytes_by, object_id_bytes
from agentcli.workspace.folders import RootedFolder
from agentcli.workspace.names import GENERATED, first_names
from agentcli.workspace.scope import pointed_place

__all__ = ["Change", "Checkpoint", "CheckpointError", "Checkpoints", "Restored"]

_TREE = re.compile(r"[0-9a-f]{40}")
_NAMED_FAILURES = 5
_INCIDENTAL = (Role.OBJECT, Role.TRACE, Role.REFLOG)
# Our own entries and a repository's files are not changes of the workspace.
_SHOWN = (
    ".",
    ":(exclude,top)%left-out",
    f":(exclude,top){os.fsdecode(OUTSIDE)}",
    ":(exclude,glob,icase)**/%.git/**",
    *(f":(exclude,glob)**/{name}/**" for name in sorted(GENERATED)),
)


@dataclass(frozen=True)
class Checkpoint:
    tree: str
    """The id of the snapshot, 40 hexadecimal digits."""
    left_out: tuple[str, ...]
    """What is newly left out, in words: `data/big.bin (1.2 GB)`."""


@dataclass(frozen=True)
class Restored:
    """What was changed, and the paths held back because commands may have made them."""

    changes: list[Change]
    held: list[str]


class Checkpoints:
    """Snapshots of one workspace, and of the repository that it lies in, in a store of their own: a
    folder that only this class writes.

    They contain files and folders with their permission bits, symlinks and empty folders, including
    ignored and untracked files, and git folders, including that of a worktree's repository. They do
    not contain special files, files over 50 MB other than git's objects, large folders that git
    ignores (without git: those that tools fill again), owners, times and extended attributes. A
    restore does not touch what the snapshot left out, nor does it remove objects of a repository.

    Every method raises CheckpointError.
    """

    def __init__(self, workspace: Path, store: Path, home: Path | None = None) -> None:
        """`home` holds what the stores share."""
        self._store = Path(os.path.realpath(store))
        self._objects = ObjectStore(self._store)
        self._packs = PackStore(self._store, self._objects.lookup, home)
        self._trees = Trees(self._objects)
        self._taker = SnapshotTaker(workspace, self._objects, self._packs)
        self._comparison = Comparison(self._trees, self._objects)

    @property
    def root(self) -> Path:
        """The workspace, or the folder of the repository that it lies in."""
        return self._taker.place.root

    @property
    def _place(self) -> WorkspaceFolders:
        return self._taker.place

    def take(self, touched: Iterable[Path] = (), *, thorough: bool = False) -> Checkpoint:
        """Take a snapshot of the workspace as it is. From now on it covers the `touched` paths
        wherever they are; relative ones are relative to the workspace. `thorough` also checks the
        objects of repositories that were there before, which only git should write to."""
        with self._errors("take a checkpoint"):
            self._refuse_what_is_no_project()
            tree, left_out = self._taker.take(touched, thorough=thorough)
        return Checkpoint(tree.hex(), left_out)

    def left_out(self, tree: str) -> frozenset[Path]:
        """Return the paths that this snapshot lacks, with everything below, though they may
        exist."""
        with self._errors("read a checkpoint"):
            paths = self._trees.left_out(_oid(tree)).paths
        return frozenset(Path(os.fsdecode(self._place.absolute(path))) for path in paths)

    def holds(self, tree: str, path: Path, data: bytes) -> bool:
        """Whether this snapshot has the file at `path` with this content."""
        inner = self._place.within(path)
        with self._errors("read a checkpoint"):
            entry = None if inner is None else self._trees.find(_oid(tree), inner)
        return entry is not None and entry.oid == object_id(b"blob", data)

    def changes(self, old: str, new: str) -> list[Change]:
        """Return the differences by path, with git's own state in words."""
        with self._errors("compare checkpoints"):
            return list(self._changes(_oid(old), _oid(new)))

    def is_empty(self, tree: str) -> bool:
        """Whether the workspace was empty."""
        with self._errors("read a checkpoint"):
            return self._trees.folder(_oid(tree)).keys() <= {LEFT_OUT, OUTSIDE}

    def paths(self, old: str, new: str, *, folder_modes: bool = True) -> set[str]:
        """Return every differing path, for `restore`: folders too, but without `folder_modes` only
        those that were added, removed or replaced something else."""
        with self._errors("compare checkpoints"):
            return {
                os.fsdecode(difference.path)
                for difference in self._comparison.differences(_oid(old), _oid(new))
                if folder_modes or not (is_folder(difference.old) and is_folder(difference.new))
            }

    def shown(self, path: str) -> str:
        """Show one of `paths` to people: relative to the workspace."""
        return self._place.shown(os.fsencode(path))

    def is_incidental(self, path: str) -> bool:
        """Whether one of `paths` is something that git notes on the side, as in its logs, so that
        changing it is nobody's work."""
        return role_of(os.fsencode(path)) in _INCIDENTAL

    @property
    def has_few_objects(self) -> bool:
        """Whether a `thorough` snapshot takes hardly longer than an ordinary one."""
        return self._taker.object_files.are_few

    def overwritten(self, old: str, new: str) -> set[str]:
        """Return, for `restore`, objects that are damaged in `new` and packs that are not what the
        last snapshot took them for. They are found by reading them: a snapshot checks size and end
        only."""
        with self._errors("read the repository"):
            objects = self._comparison.damaged(_oid(old), _oid(new))
            return set(map(os.fsdecode, (*self._taker.overwritten(), *objects)))

    def diff(self, old: str, new: str) -> str:
        """Return a unified diff as `git diff` prints it, empty if nothing differs. Bytes that are
        not UTF-8 are surrogates in it. Files that tools generate are left out."""
        before, after = _oid(old), _oid(new)
        with self._errors("compare checkpoints"):
            for difference in self._trees.compare(before, after):
                for entry in (difference.old, difference.new):
                    if entry is not None and not (entry.is_folder or entry.is_kept):
                        self._objects.adopt(entry.oid)
            arguments = ("diff-tree", "-r", "-p", "-M", "--no-ext-diff", "--no-textconv")
            printed = self._objects.git.run(*arguments, "--no-color", old, new, "--", *_SHOWN)
        return printed.decode(errors="surrogateescape")

    def restore(
        self,
        tree: str,
        paths: Collection[str] | None = None,
        *,
        shared: Collection[str] = (),
        idle: Collection[str] | None = None,
    ) -> Restored:
        """Bring the workspace, or these paths, to the state of `tree`. A folder that should not be
        there stays if something else is in it.

        Without `paths` everything is restored; but of a repository that lies elsewhere, where
        others may be working, only the `shared` paths. If `idle` snapshots are given, files that
        git executes or trusts are restored only if one of these has them. What is there now is lost
        unless a checkpoint was taken; what `tree` left out is not touched.

        A CheckpointError in the middle names what was not restored; another call continues.
        """
        target = _oid(tree)
        with self._errors("restore a checkpoint"):
            self._refuse_what_is_no_project()
            self.root.mkdir(parents=True, exist_ok=True)
            wanted = None if paths is None else set(map(os.fsencode, paths))
            now = self._taker.take(thorough=True)[0]
            closed: set[bytes] = set()
            while not closed >= self._taker.unreadable_folders:
                closed |= self._taker.unreadable_folders
                self._open_folders(target, closed, wanted)
                now = self._taker.take(thorough=True)[0]
            differences = self._to_restore(now, target, wanted, set(map(os.fsencode, shared)))
            may, held = self._without_power(differences, target, idle)
            return Restored(self._restore(now, target, may), held)

    def write_out(
        self,
        tree: str,
        folder: Path,
        *,
        idle: Collection[str] | None = None,
        lend: bool = False,
    ) -> list[str]:
        """Write a copy of the workspace as in `tree` to `folder`, which must be empty or missing;
        `idle` is as for `restore`. With `lend`, the copy has links to what the snapshot left out
        and the workspace has now. Return notes about the copy for people."""
        target = _oid(tree)
        with self._errors("copy a checkpoint"):
            folder.mkdir(parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise CheckpointError(f"{folder} is not empty")
            differences = list(self._trees.compare(EMPTY_TREE, target))
            left_out = sorted(p for p in self._trees.left_out(target).paths if not is_common(p))
            elsewhere = {d.path for d in differences if self._leads_elsewhere(d)}
            differences = [d for d in differences if d.path not in elsewhere]
            wanted, held = self._without_power(filter(_is_for_copy, differences), target, idle)
            with Restorer(folder, self._objects, self._packs, links=False) as restorer:
                restorer.apply(wanted, self._comparison.order)
            _raise_if_incomplete(wanted, restorer.failures)
            lent = self._lend(left_out, folder) if lend else set()
        return [*_notes_of_copy(left_out, lent), *_notes_of_missing(elsewhere, held)]

    def _lend(self, paths: Sequence[bytes], folder: Path) -> set[bytes]:
        """Link from `folder` to those `paths` that exist now, and return them."""
        lent = set()
        with contextlib.closing(RootedFolder(folder)) as copy:
            for path in paths:
                real = Path(os.fsdecode(self._place.absolute(path)))
                with contextlib.suppress(OSError):
                    if real.is_dir() or real.is_file():
                        above, name = copy.place(path)
                        os.symlink(real, name, dir_fd=above)
                        lent.add(path)
        return lent

    def copy_to(self, store: Path, trees: Sequence[str]) -> None:
        """Fill `store`, a new one, with all that `trees` need, using hard links where possible."""
        roots = [_oid(tree) for tree in trees]
        with self._errors("copy checkpoints"):
            target = ObjectStore(store)
            target.create()
            objects, kept = self._trees.reachable(roots)
            for oid in objects:
                source = self._objects.loose(oid)
                if source.exists():
                    target.loose(oid).parent.mkdir(mode=0o700, exist_ok=True)
                    link_or_copy(source, target.loose(oid))
            # An index is copied after its pack, because it promises that the pack is there.
            for source in sorted(self._store.glob("objects/pack/pack-*"), reverse=True):
                link_or_copy(source, store / source.relative_to(self._store))
            self._packs.copy_to(PackStore(store, target.lookup), kept)
            save_place(store, replace(self._place, common=None))

    def move_to(self, workspace: Path, root: Path) -> None:
        """Make the snapshots those of another workspace from now on, and of the repository `root`
        around it."""
        with self._errors("move checkpoints"):
            real = [Path(os.path.realpath(path)) for path in (workspace, root)]
            save_place(self._store, WorkspaceFolders(*real))

    # --- parts ----------------------------------------------------------------------------------

    def _changes(self, old: bytes, new: bytes) -> Iterator[Change]:
        if old == new:
            return
        then, now = self._trees.left_out(old), self._trees.left_out(new)
        differences = []
        for difference in self._comparison.differences(old, new):
            # A path that only one of them covered is not known to differ.
            unseen = then if difference.old is None else now
            one_sided = difference.old is None or difference.new is None
            if not (one_sided and unseen.covers(difference.path)):
                differences.append(difference)
        yield from Report(self._place, self._comparison, old, new).changes(differences)

    def _to_restore(
        self, now: bytes, target: bytes, paths: set[bytes] | None, shared: set[bytes]
    ) -> list[Difference]:
        left_out = self._trees.left_out(target)
        wanted = _Wanted(
            shared if paths is None else paths,
            lambda repository: self._trees.find(target, repository) is None,
        )
        found = self._comparison.differences(now, target)
        for path in self._taker.overwritten():
            entry = self._trees.find(target, path)
            found += [Difference(path, None, entry)] if entry is not None and entry.is_kept else []
        return [
            difference
            for difference in found
            if not (difference.new is None and left_out.covers(difference.path))
            and self._may_be_restored(difference, target)
            and (difference in wanted or (paths is None and not is_common(difference.path)))
        ]

    def _restore(self, now: bytes, target: bytes, wanted: list[Difference]) -> list[Change]:
        failures: dict[bytes, str] = {}
        kept: set[bytes] = set()
        steps = self._comparison.steps(now, target, wanted)
        for top, above in ((self.root, b""), (self._place.common, COMMON + b"/")):
            its = [d for d in steps if is_common(d.path) == bool(above) and d.path != COMMON]
            if top is None or not its:
                continue
            top.mkdir(exist_ok=True)

            def order(difference: Difference, above: bytes = above) -> int:
                return self._comparison.order(difference._replace(path=above + difference.path))

            with Restorer(top, self._objects, self._packs, links=True) as restorer:
                restorer.apply([d._replace(path=d.path[len(above) :]) for d in its], order)
            failures |= {above + path: why for path, why in restorer.failures.items()}
            kept |= {above + path for path in restorer.kept}
        _raise_if_incomplete(steps, failures)
        done = [d for d in wanted if d.path not in kept]
        return list(Report(self._place, self._comparison, now, target).changes(done))

    def _may_be_restored(self, difference: Difference, target: bytes) -> bool:
        """Refuse to restore a lock, or to remove an object while its repository stays."""
        repository = repository_of(difference.path)
        if repository is None:
            return True
        if repository == COMMON and self._place.common is None:
            return False
        role = role_of(difference.path)
        if difference.new is not None:
            return difference.new.is_folder or role is not Role.LOCK
        return role is not Role.OBJECT or self._trees.find(target, repository) is None

    def _without_power(
        self, differences: Iterable[Difference], target: bytes, idle: Collection[str] | None
    ) -> tuple[list[Difference], list[str]]:
        """Return the differences to `target` that may be restored, and the paths held back, for
        people."""
        if idle is None:
            return list(differences), []
        roots = list(map(_oid, idle))
        may: list[Difference] = []
        held: list[str] = []
        for difference in differences:
            path, _, new = difference
            id_bytes = partial(self._id_bytes, path, target)
            is_held = new is not None and can_execute_code(self._objects, path, new, id_bytes)
            if is_held and not any(self._trees.find(root, path) == new for root in roots):
                held.append(self._place.shown(path))
            else:
                may.append(difference)
        return may, held

    def _id_bytes(self, path: bytes, target: bytes) -> int | None:
        """Return the length of object ids in the repository that `path` lies in, by its settings
        now and in `target`; None if these disagree or there are none."""
        repository = repository_of(path)
        if repository is None:
            return None
        here = self._place.common if repository == COMMON else self.root / os.fsdecode(repository)
        there = self._trees.find(target, repository + b"/config")
        sizes = {None if here is None else object_id_bytes(here)}
        if there is not None and not there.is_folder:
            sizes.add(id_bytes_by(self._objects.read(there.oid)))
        sizes.discard(None)
        return sizes.pop() if len(sizes) == 1 else None

    def _leads_elsewhere(self, difference: Difference) -> bool:
        """Whether this is a `.git` file that points outside: a copy must not share that
        repository."""
        path, _, new = difference
        if repository_of(path) != path or new is None or new.is_folder:
            return False
        named = None if new.is_link else pointed_place(self._objects.read(new.oid))
        if named is None or named.startswith("/"):
            return True
        return os.path.normpath(f"{os.fsdecode(path)}/../{named}").startswith("..")

    def _open_folders(
        self, target: bytes, closed: Collection[bytes], paths: set[bytes] | None
    ) -> None:
        """Give folders that can't be read the modes that they have in `target`."""
        found = [(path, self._trees.find(target, path)) for path in sorted(closed)]
        differences = [
            Difference(path, entry, entry)
            for path, entry in found
            if is_folder(entry) and not is_common(path) and (paths is None or path in paths)
        ]
        with Restorer(self.root, self._objects, self._packs, links=True) as restorer:
            restorer.apply(differences)

    def _refuse_what_is_no_project(self) -> None:
        home = os.path.expanduser("~")  # noqa: PTH111 (Path's own fails where there is no home)
        if self.root in (Path("/"), Path(os.path.realpath(home))):
            raise CheckpointError(
                f"{self.root} is not a project folder, so no checkpoints are taken",
                hint="to have checkpoints, start in the folder of one project",
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


class _Wanted:
    """The requested paths, plus the folders needed above them. Of any repository that is among
    them, also the missing objects or, if `goes` says that all of it goes, whatever objects later
    work has added."""

    def __init__(self, paths: Collection[bytes], goes: Callable[[bytes], bool]) -> None:
        self._paths = paths
        self._above = {folder for path in paths for folder in with_parents(path)}
        self._repositories = set(filter(None, map(repository_of, paths)))
        self._gone = {each for each in self._repositories if each in paths and goes(each)}

    def __contains__(self, difference: object) -> bool:
        assert isinstance(difference, Difference)
        path, old, new = difference
        if path in self._paths or (is_folder(new) and not is_folder(old) and path in self._above):
            return True
        repository = repository_of(path)
        if repository is None:
            return False
        if new is None:
            return repository in self._gone and path.startswith(repository + b"/objects/")
        return role_of(path) is Role.OBJECT and repository in self._repositories


def _oid(tree: str) -> bytes:
    if not _TREE.fullmatch(tree):
        raise CheckpointError(f"{tree!r} is not a checkpoint")
    return bytes.fromhex(tree)


def _is_for_copy(difference: Difference) -> bool:
    """Whether a copy should have it: not locks, nor the original's notes about its worktrees."""
    path = difference.path
    repository = repository_of(path)
    if repository is None:
        return True
    in_worktrees = (path + b"/").startswith(repository + b"/worktrees/")
    return not (repository == COMMON or role_of(path) is Role.LOCK or in_worktrees)


def _notes_of_copy(left_out: Sequence[bytes], lent: Collection[bytes]) -> Iterator[str]:
    for path in left_out:
        name = path.decode(errors="replace")
        how = "is a link to that of the workspace" if path in lent else "is not in the copy"
        yield f"{name} {how}"


def _notes_of_missing(elsewhere: Iterable[bytes], held: Iterable[str]) -> Iterator[str]:
    for path in sorted(elsewhere):
        yield f"{path.decode(errors='replace')} is not in the copy: its repository is elsewhere"
    for name in held:
        yield f"{name} is not in the copy: commands may have made it"


def _raise_if_incomplete(wanted: Collection[Difference], failures: dict[bytes, str]) -> None:
    if not failures:
        return
    done = sum(difference.path not in failures for difference in wanted)
    named = [f"{p.decode(errors='replace')} ({why})" for p, why in sorted(failures.items())]
    shown = first_names(named, _NAMED_FAILURES)
    raise CheckpointError(
        f"restored {done} of {len(wanted)} paths; failed: {shown}",
        hint="clear what is in the way and try again; paths already restored are kept",
    )
