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
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from agentcli.events.observations import GitCleanupObservation
from agentcli.git.baseline import Baseline, TooManyEntries
from agentcli.git.disarm import Disarmer, set_ids_cleared, todos_of
from agentcli.git.notifications import Notifications
from agentcli.git.quarantine import Finding, Identity, Quarantine, Removals, identity, why
from agentcli.git.watch_record import RecordFile, WatchRecord, in_use, inventory, unfinished
from agentcli.interrupts import shield
from agentcli.workspace.guard import CLOCK_SLACK_NS
from agentcli.workspace.names import display_path, first_names, quoted_path
from agentcli.workspace.scope import GIT, MODULES, AccessScope

FOLDER = "git-set-aside"
"""Where taken files are kept: in the session's folder, which commands can't see."""
RECORDS = "git-watch"
"""In the agent's state folder: one file for each session at work."""
_ROUNDS = 4
_MOST_TIMES = 10
"""How often the same path is restored during a command before whatever keeps changing it is
stopped."""
_MOST_NAMED, _LONGEST_NAME = 8, 100
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
        self._unreported: list[GitCleanupObservation] = []
        self._times: Counter[Path] = Counter()
        self._contested: Path | None = None
        self._refused: dict[str, None] = {}
        """Names of settings that commands could not write, not reported yet."""
        self.before_close: Callable[[], None] = lambda: None
        self._is_lenient = False
        self._ran = False
        self._notifications: Notifications | None = None

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
                self._notifications = Notifications(self._on_change)
            except OSError as error:
                log.warning("git folders are looked through only after commands: %s", error)
            else:
                self._notifications.watch(self._record.baselines, all_of_them=not self._mounted)
                self._notifications.start()

    def check(self, *, in_result: bool = True) -> str:
        """Check everything after a command. Returns what the model must know about it; unless that
        is `in_result`, an observation tells the model."""
        if self._record is None:
            return ""
        with shield():
            with self._lock:
                stopped = self._contested
                for _ in range(_ROUNDS):
                    if not self._look(self._record.baselines):
                        break
                else:
                    stopped = stopped or self._findings[-1].path
            if stopped is not None:
                self._end_contest()
            message = self._report(stopped, in_result=in_result)
            with self._lock:
                refused, self._refused = self._refused, {}
            names = _few([quoted_path(name, _LONGEST_NAME) for name in refused])
            unwritten = f"[not written to git's settings: {names}; {_LET_IN}]" if refused else ""
            return "\n".join(filter(None, (unwritten, message)))

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
                self._look(self._record.baselines)
        self._contested = None
        self._times.clear()

    def let_in(self, folder: Identity, name: str) -> int | None:
        """Do what a command wants that renames the lock file of the settings `name` in a git folder
        to it, if the settings may become so. Returns 0 if it is done, an error number if not, None
        if the sandbox does not keep commands from doing it. Callable from any thread."""
        with self._lock:
            for baseline in self._record.baselines if self._record is not None else ():
                refused = baseline.let_in(folder, name)
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
            self._look(self._record.baselines)
            self._findings += self._search(self._record)
            self._report(None, in_result=False)

    def close(self) -> None:
        """Finish the watch; everything that commands started has ended."""
        self.before_close()
        if self._record is None:
            return
        if self._notifications is not None:
            self._notifications.stop()
        with self._lock:
            self._ran = True
            self.end_turn()
            for baseline in self._record.baselines:
                baseline.close()
            self._record = None
            if self._file is not None:
                self._file.remove()

    def observations(self) -> list[GitCleanupObservation]:
        """Return what was found since the last call, to be recorded."""
        with self._lock:
            found, self._unreported = self._unreported, []
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
        for baseline in [each for each in record.baselines if not each.made_by_commands]:
            self._findings += [
                Finding(path, "changed by a command that was allowed to run", why(path.name))
                for path in baseline.adopt()
            ]
        for baseline in self._new_baselines(record.baselines):
            record.baselines.append(baseline)
            baseline.made_by_commands = False
            baseline.take()
        self._write()

    def finish_others(self) -> None:
        """Finish the watch of sessions whose processes were killed, wherever they worked."""
        for path, record, file in unfinished(self._records):
            if record is not None:
                self._add(_checked(record.baselines, self._quarantine))
                self._findings += self._search(record)
                self._report(None, in_result=False)
            log.info("the watch of a session that was killed is finished: %s", path.name)
            file.remove()

    # --- taking the baselines -------------------------------------------------------------------

    def _taken(self) -> WatchRecord:
        since_ns = time.time_ns() - CLOCK_SLACK_NS
        scope = self._scope
        baselines = [self._baseline(path) for path in scope.git_folders]
        by_folder: dict[Path, set[str]] = {}
        for path in scope.protected:
            if not any(path.is_relative_to(folder) for folder in scope.git_folders):
                by_folder.setdefault(path.parent, set()).add(path.name)
        baselines += [self._baseline(path, frozenset(by_folder[path])) for path in by_folder]
        # Sessions already at work here know the state before their commands ran.
        others = {
            baseline.path: baseline
            for record in in_use(self._records, self._record_path)
            for baseline in record.baselines
        }
        have = {baseline.path for baseline in baselines}
        for baseline in baselines:
            baseline.take()
            other = others.get(baseline.path)
            if other is not None and other.names == baseline.names:
                baseline.records = other.records
            inner = [baseline.path / place for place in sorted(baseline.folders)]
            baselines += [self._baseline(path) for path in inner if path not in have]
            have.update(inner)
        return WatchRecord(
            roots=(*scope.writable, *scope.mounts.values()),
            since_ns=since_ns,
            baselines=baselines,
            todos=todos_of([each.path for each in baselines if each.names is None]),
            before=inventory(scope.writable, since_ns),
        )

    def _baseline(self, folder: Path, names: frozenset[str] | None = None) -> Baseline:
        mounted = {
            str(path.relative_to(folder)): id_
            for path, id_ in self._mounted.items()
            if path.is_relative_to(folder) and path != folder
        }
        return Baseline(folder, names=names, mounted=mounted)

    # --- finding changes ------------------------------------------------------------------------

    def _on_change(self, baselines: set[Baseline] | None) -> None:
        """Called by the thread; `baselines` is None if notifications were lost."""
        with self._lock:
            if self._record is None or self._is_lenient:
                return
            self._look(self._record.baselines if baselines is None else list(baselines))
            if self._contested is not None:
                self._stop()

    def _look(self, baselines: list[Baseline]) -> list[Finding]:
        """Restore what changed in `baselines` and in git folders new within them; return what was
        found."""
        assert self._record is not None
        found = _checked(baselines, self._quarantine)
        new = self._new_baselines(baselines)
        if new:
            self._record.baselines += new
            found += _checked(new, self._quarantine)
            if self._notifications is not None:
                self._notifications.watch(new, all_of_them=not self._mounted)
        if new or any(baseline.changed for baseline in baselines):
            self._write()
        self._add(found)
        return found

    def _new_baselines(self, baselines: Iterable[Baseline]) -> list[Baseline]:
        assert self._record is not None
        have = {baseline.path for baseline in self._record.baselines}
        new = {}
        for baseline in baselines:
            for place in baseline.folders:
                path = baseline.path / place
                if path not in have:
                    by_commands = place.partition("/")[0] == MODULES
                    new[path] = Baseline(path, made_by_commands=by_commands)
        return list(new.values())

    def _add(self, found: list[Finding]) -> None:
        self._findings += found
        for finding in found:
            self._times[finding.path] += 1
            if self._times[finding.path] > _MOST_TIMES:
                self._contested = finding.path

    def _search(self, record: WatchRecord) -> list[Finding]:
        known = {each.path for each in record.baselines if not each.made_by_commands}
        known |= {each.path / name for each in record.baselines for name in each.names or ()}
        within = {each.path / place for each in record.baselines for place in each.folders}
        removals = Removals(self._quarantine)
        disarmer = Disarmer(
            record.roots, record.since_ns, known, record.before, record.todos, removals
        )
        for path in sorted(within - known):
            disarmer.git_folder(path)
        disarmer.run()
        return [*removals.findings, *set_ids_cleared(record.roots, record.since_ns)]

    def _write(self) -> None:
        if self._file is not None and self._record is not None:
            with contextlib.suppress(OSError):
                self._file.write(self._record)

    # --- reporting ------------------------------------------------------------------------------

    def _report(self, stopped: Path | None, *, in_result: bool) -> str:
        """Queue the findings to be recorded, and return them in words for the model."""
        with self._lock:
            findings, self._findings = self._findings, []
        if not findings:
            return ""
        alike: dict[tuple[str, str], dict[str, None]] = {}
        for finding in findings:
            names = alike.setdefault((finding.done, finding.why), {})
            names[display_path(finding.path, self._scope.workspace)] = None
        items = [f"{_few(list(names))}: {done} ({why})" for (done, why), names in alike.items()]
        if stopped is not None:
            shown = display_path(stopped, self._scope.workspace)
            items.append(f"the process that kept changing {shown} was stopped, along with all jobs")
        folder = str(self._quarantine.place) if self._quarantine.place.exists() else ""
        where = f"; kept in {folder}" if folder else ""
        text = f"[{'; '.join(items)}{where}. Leave that to the user: tell them what to change.]"
        self._unreported.append(
            GitCleanupObservation(
                content="" if in_result else text, items=tuple(items), folder=folder
            )
        )
        return text


def _few(names: list[str]) -> str:
    return first_names(names, _MOST_NAMED)


def _checked(baselines: Iterable[Baseline], quarantine: Quarantine) -> list[Finding]:
    found = []
    for baseline in baselines:
        try:
            found += baseline.check(quarantine)
        except TooManyEntries:
            found.append(Finding(baseline.path, "holds too much to be watched", why(GIT)))
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
