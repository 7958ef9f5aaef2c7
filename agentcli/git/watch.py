"""Keeps what git runs or trusts as it was before commands ran, in every layer.

No sandbox can forbid files that don't exist yet, and Landlock can't protect those that do. So they
are watched: a thread restores what changes as soon as the kernel reports it, and after each command
everything is checked before the result is reported. The thread only works on files; the main thread
reports and records what it found.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import stat
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agentcli.events.observations import GitCleanupObservation
from agentcli.git.control_files import TooManyEntries
from agentcli.git.disarm import Disarmer, inventory, set_ids_cleared
from agentcli.git.quarantine import Identity, Quarantine, identity
from agentcli.git.removals import Removals
from agentcli.git.seal import Finding, Seal, why
from agentcli.git.watch_record import RecordFile, WatchRecord, in_use, unfinished
from agentcli.git.work_data import todos_of
from agentcli.interrupts import shield
from agentcli.system.inotify import Inotify
from agentcli.workspace.access_scope import AccessScope
from agentcli.workspace.git_layout import (
    ASIDE,
    DATA_FOLDERS,
    GIT,
    INFO,
    MODULES,
    WORKTREES,
    is_routine_name,
)
from agentcli.workspace.guard import CLOCK_SLACK_NS
from agentcli.workspace.names import display_path, first_names, quoted_path

FOLDER = "git-set-aside"
"""Where taken files are kept: in the session's folder, which commands can't see."""
RECORDS = "git-watch"
"""In the agent's state folder: one file for each session at work."""
_ROUNDS = 4
_MOST_TIMES = 10
"""How often the same path is restored during a command before whatever keeps changing it is
stopped."""
_MOST_TOLD, _LONGEST_TOLD = 8, 100
_LET_IN = (
    "the sandbox lets in only those that run nothing and lead where work was sent before; if the "
    "task needs others, repeat the command in bash with unsandboxed: true and a reason"
)
_LULL_S = 0.03
_LONGEST_CONTEST_S = 5

log = logging.getLogger(__name__)


class GitWatch:
    """The watch of one session. `stop` ends what is running now and may be called from any thread;
    `end_all` ends everything that commands have started.

    Create it before anything is spawned in the sandbox. It does nothing before `begin`.
    """

    def __init__(
        self,
        scope: AccessScope,
        *,
        layer: str,
        state: Path,
        session: str,
        folder: Path,
        stop: Callable[[], None],
        end_all: Callable[[], None],
    ) -> None:
        self._scope = scope
        self._stop = stop
        self._end_all = end_all
        self._quarantine = Quarantine(folder / FOLDER)
        self._records = state / RECORDS
        self._record_path = self._records / f"{session}.json"
        self._contains = layer != "none"
        self._mounted = _closed(scope.protected, layer)
        self._record: WatchRecord | None = None
        self._file: RecordFile | None = None
        self._lock = threading.RLock()
        self._findings: list[Finding] = []
        self._untold: list[GitCleanupObservation] = []
        self._times: Counter[Path] = Counter()
        self._contested: Path | None = None
        self._refused: dict[str, None] = {}
        """Names of settings that commands could not write, not told yet."""
        self.before_close: Callable[[], None] = lambda: None
        self._is_lenient = False
        self._ran = False
        self._messages: _Messages | None = None

    def begin(self) -> None:
        """Call this when commands are about to run: the current state is the one to keep."""
        self._ran = True
        if self._contested is not None:
            with shield():
                self._end_contest()
        if self._record is not None or not self._contains:
            return
        with self._lock:
            self._record = self._taken()
            with contextlib.suppress(OSError):
                self._file = RecordFile(self._record_path)
                self._file.write(self._record)
            try:
                self._messages = _Messages(self._on_change)
            except OSError as error:
                log.warning("git folders are looked through only after commands: %s", error)
            else:
                self._messages.watch(self._record.seals, all_of_them=not self._mounted)
                self._messages.start()

    def check(self, *, in_result: bool = True) -> str:
        """Check everything after a command. Returns what the model must know about it; unless that
        is `in_result`, an observation tells the model."""
        if self._record is None:
            return ""
        with shield():
            with self._lock:
                stopped = self._contested
                for _ in range(_ROUNDS):
                    if not self._look(self._record.seals):
                        break
                else:
                    stopped = stopped or self._findings[-1].path
            if stopped is not None:
                self._end_contest()
            told = self._told(stopped, in_result=in_result)
            return "\n".join(filter(None, (self._refused_told(), told)))

    def _end_contest(self) -> None:
        """End whatever keeps making what is taken away, and wait until nothing more appears."""
        assert self._record is not None
        self._end_all()
        deadline = time.monotonic() + _LONGEST_CONTEST_S
        count = -1
        while count != len(self._findings) and time.monotonic() < deadline:
            count = len(self._findings)
            time.sleep(_LULL_S)
            with self._lock:
                self._look(self._record.seals)
        self._contested = None
        self._times.clear()

    def let_in(self, folder: Identity, name: str) -> int | None:
        """Do what a command wants that renames the lock file of the settings `name` in a git folder
        to it, if the settings may become so. Returns 0 if it is done, an error number if not, None
        if the sandbox does not keep commands from doing it. Callable from any thread."""
        with self._lock:
            for seal in self._record.seals if self._record is not None else ():
                refused = seal.let_in(folder, name)
                if refused is not None:
                    self._refused |= dict.fromkeys(refused)
                    self._write()
                    return errno.EPERM if refused else 0
        return None

    def end_turn(self) -> None:
        """Disarm what commands made, before the user's own git meets it."""
        if self._record is None or not self._ran:
            return
        self._ran = False
        with shield(), self._lock:
            self._look(self._record.seals)
            self._findings += self._search(self._record)
            self._told(None, in_result=False)

    def close(self) -> None:
        """Finish the watch; everything that commands started has ended."""
        self.before_close()
        if self._record is None:
            return
        if self._messages is not None:
            self._messages.stop()
        with self._lock:
            self._ran = True
            self.end_turn()
            for seal in self._record.seals:
                seal.close()
            self._record = None
            if self._file is not None:
                self._file.remove()

    def observations(self) -> list[GitCleanupObservation]:
        """Return what was found since the last call, to be recorded."""
        with self._lock:
            found, self._untold = self._untold, []
        return found

    @contextlib.contextmanager
    def lenient(self) -> Iterator[None]:
        """Accept the changes of a command that a user let run with full rights."""
        self.check(in_result=False)
        self._is_lenient = True
        try:
            yield
        finally:
            with shield(), self._lock:
                self._is_lenient = False
                self._adopt()

    def _adopt(self) -> None:
        record = self._record
        if record is None:
            return
        for seal in [each for each in record.seals if not each.made_by_commands]:
            self._findings += [
                Finding(path, "changed by a command that was allowed to run", why(path.name))
                for path in seal.adopt()
            ]
        for seal in self._new_seals(record.seals):
            record.seals.append(seal)
            seal.made_by_commands = False
            seal.take()
        self._write()

    def finish_others(self) -> None:
        """Finish the watch of sessions whose processes were killed, wherever they worked."""
        for path, record, file in unfinished(self._records):
            if record is not None:
                self._add(_checked(record.seals, self._quarantine))
                self._findings += self._search(record)
                self._told(None, in_result=False)
            log.info("the watch of a session that was killed is finished: %s", path.name)
            file.remove()

    # --- taking the seals -----------------------------------------------------------------------

    def _taken(self) -> WatchRecord:
        since_ns = time.time_ns() - CLOCK_SLACK_NS
        scope = self._scope
        seals = [Seal(path, mounted=self._mounted_in(path)) for path in scope.git_folders]
        by_folder: dict[Path, set[str]] = {}
        for path in scope.protected:
            if not any(path.is_relative_to(folder) for folder in scope.git_folders):
                by_folder.setdefault(path.parent, set()).add(path.name)
        seals += [
            Seal(folder, names=frozenset(names), mounted=self._mounted_in(folder))
            for folder, names in by_folder.items()
        ]
        # Sessions already at work here know the state before their commands ran.
        others = {
            seal.path: seal
            for record in in_use(self._records, self._record_path)
            for seal in record.seals
        }
        have = {seal.path for seal in seals}
        for seal in seals:
            seal.take()
            if (other := others.get(seal.path)) is not None and other.names == seal.names:
                seal.records = other.records
            inner = [seal.path / place for place in sorted(seal.folders)]
            seals += [
                Seal(path, mounted=self._mounted_in(path)) for path in inner if path not in have
            ]
            have.update(inner)
        folders = [seal.path for seal in seals if seal.names is None]
        return WatchRecord(
            roots=(*scope.writable, *scope.mounts.values()),
            since_ns=since_ns,
            seals=seals,
            todos=todos_of(folders),
            before=inventory(scope.writable, since_ns),
        )

    def _mounted_in(self, folder: Path) -> dict[str, Identity | None]:
        return {
            str(path.relative_to(folder)): id_
            for path, id_ in self._mounted.items()
            if path.is_relative_to(folder) and path != folder
        }

    # --- finding changes ------------------------------------------------------------------------

    def _on_change(self, seals: set[Seal] | None) -> None:
        """Called by the thread; `seals` is None if events were lost."""
        with self._lock:
            if self._record is None or self._is_lenient:
                return
            self._look(self._record.seals if seals is None else list(seals))
            if self._contested is not None:
                self._stop()

    def _look(self, seals: list[Seal]) -> list[Finding]:
        """Restore what changed in `seals` and in git folders new within them; return what was
        found."""
        assert self._record is not None
        found = _checked(seals, self._quarantine)
        new = self._new_seals(seals)
        if new:
            self._record.seals += new
            found += _checked(new, self._quarantine)
            if self._messages is not None:
                self._messages.watch(new, all_of_them=not self._mounted)
        if new or any(seal.changed for seal in seals):
            self._write()
        self._add(found)
        return found

    def _new_seals(self, seals: Iterable[Seal]) -> list[Seal]:
        assert self._record is not None
        have = {seal.path for seal in self._record.seals}
        new = {}
        for seal in seals:
            for place in seal.folders:
                path = seal.path / place
                if path not in have:
                    by_commands = place.partition("/")[0] == MODULES
                    new[path] = Seal(path, made_by_commands=by_commands)
        return list(new.values())

    def _add(self, found: list[Finding]) -> None:
        self._findings += found
        for finding in found:
            self._times[finding.path] += 1
            if self._times[finding.path] > _MOST_TIMES:
                self._contested = finding.path

    def _search(self, record: WatchRecord) -> list[Finding]:
        sealed = {seal.path for seal in record.seals if not seal.made_by_commands}
        sealed |= {seal.path / name for seal in record.seals for name in seal.names or ()}
        by_commands = {
            seal.path / place for seal in record.seals for place in seal.folders
        } - sealed
        removals = Removals(self._quarantine)
        disarmer = Disarmer(
            record.roots, record.since_ns, sealed, record.before, record.todos, removals
        )
        for path in sorted(by_commands):
            disarmer.git_folder(path)
        disarmer.run()
        return [*removals.findings, *set_ids_cleared(record.roots, record.since_ns)]

    def _write(self) -> None:
        if self._file is not None and self._record is not None:
            with contextlib.suppress(OSError):
                self._file.write(self._record)

    # --- reporting ------------------------------------------------------------------------------

    def _told(self, stopped: Path | None, *, in_result: bool) -> str:
        """Queue the findings to be recorded, and return them in words for the model."""
        with self._lock:
            findings, self._findings = self._findings, []
        if not findings:
            return ""
        alike: dict[tuple[str, str], dict[str, None]] = {}
        for finding in findings:
            names = alike.setdefault((finding.done, finding.why), {})
            names[self._shown(finding.path)] = None
        items = [f"{_few(list(names))}: {done} ({why})" for (done, why), names in alike.items()]
        if stopped is not None:
            shown = self._shown(stopped)
            items.append(f"the process that kept changing {shown} was stopped, along with all jobs")
        folder = str(self._quarantine.place) if self._quarantine.place.exists() else ""
        where = f"; kept in {folder}" if folder else ""
        text = f"[{'; '.join(items)}{where}. Leave that to the user: tell them what to change.]"
        self._untold.append(
            GitCleanupObservation(
                content="" if in_result else text, items=tuple(items), folder=folder
            )
        )
        return text

    def _refused_told(self) -> str:
        """Return what the model must know about settings that could not be written."""
        with self._lock:
            refused, self._refused = self._refused, {}
        names = _few([quoted_path(name, _LONGEST_TOLD) for name in refused])
        return f"[not written to git's settings: {names}; {_LET_IN}]" if refused else ""

    def _shown(self, path: Path) -> str:
        return display_path(path, self._scope.workspace)


class _Messages(threading.Thread):
    """Waits for the kernel's messages about folders. Raises OSError if there are none."""

    def __init__(self, on_change: Callable[[set[Seal] | None], None]) -> None:
        super().__init__(name="git-watch", daemon=True)
        self._inotify = Inotify()
        self._on_change = on_change
        self._of: dict[int, list[tuple[Seal, str]]] = {}
        self._wake = os.pipe()

    def watch(self, seals: Iterable[Seal], *, all_of_them: bool) -> None:
        """Watch `seals`: only git folders, unless `all_of_them`."""
        for seal in seals:
            if seal.names is None or all_of_them:
                for place in ("", *_PLACES) if seal.names is None else ("",):
                    self._add(seal, place)

    def run(self) -> None:
        try:
            poll = select.poll()
            poll.register(self._inotify.descriptor, select.POLLIN)
            poll.register(self._wake[0], select.POLLIN)
            while all(descriptor != self._wake[0] for descriptor, _ in poll.poll()):
                self._read()
        except OSError:
            log.exception("git folders are no longer watched, but looked through after commands")

    def stop(self) -> None:
        os.write(self._wake[1], b"x")
        self.join()
        self._inotify.close()
        for descriptor in self._wake:
            os.close(descriptor)

    def _read(self) -> None:
        touched: set[Seal] = set()
        for event in self._inotify.read():
            if event.watch < 0:
                self._on_change(None)
                return
            for seal, place in self._of.get(event.watch, ()):
                if _matters(seal, place, event.name):
                    touched.add(seal)
        if touched:
            self._on_change(touched)
            self.watch(touched, all_of_them=True)

    def _add(self, seal: Seal, place: str) -> None:
        with contextlib.suppress(OSError):
            number = self._inotify.add(str(seal.path / place))
            entries = self._of.setdefault(number, [])
            if (seal, place) not in entries:
                entries.append((seal, place))


_PLACES = ("hooks", INFO, MODULES, WORKTREES)


def _few(names: list[str]) -> str:
    return first_names(names, _MOST_TOLD)


def _matters(seal: Seal, place: str, name: str) -> bool:
    if seal.names is not None:
        return name in seal.names
    if place or not name:
        return not name.startswith(ASIDE)
    if name in DATA_FOLDERS:
        return (seal.path / name).is_symlink()
    if name in (INFO, MODULES, WORKTREES) or not is_routine_name(name):
        return True
    return not _is_file(seal.path / name)


def _is_file(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return True


def _checked(seals: Iterable[Seal], quarantine: Quarantine) -> list[Finding]:
    found = []
    for seal in seals:
        try:
            found += seal.check(quarantine)
        except TooManyEntries:
            found.append(Finding(seal.path, "holds too much to be watched", why(GIT)))
    return found


def _closed(paths: Iterable[Path], layer: str) -> dict[Path, Identity | None]:
    """Return the `paths` that the sandbox keeps commands from writing. bubblewrap protects the file
    that is there now, given by its identity; seatbelt protects the name, so the value is None."""
    if layer == "seatbelt":
        return dict.fromkeys(paths)
    found: dict[Path, Identity | None] = {}
    for path in paths if layer == "bubblewrap" else ():
        with contextlib.suppress(OSError):
            if not path.is_symlink():
                found[path] = identity(path.lstat())
    return found
