"""Find which step of a session broke a check, by bisecting its snapshots, and keep results."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import ceil, log2
from pathlib import Path
from typing import Any

from agentcli.app.agent_builder import AgentBuilder
from agentcli.app.check import CheckResult
from agentcli.app.copy_check import CopyCheck
from agentcli.app.requirements import require_command
from agentcli.app.undo import files_now
from agentcli.checkpoints.checkpointer import checkpoints_of
from agentcli.checkpoints.snapshots import Checkpoints
from agentcli.errors import SessionError, UsageError
from agentcli.sessions.history import FileState, all_snapshots, file_states, idle_snapshots
from agentcli.sessions.session import SessionRecord, read_session
from agentcli.workspace.private import dump_json, locked, read_private

_FILE = "checks.json"
_MOST = 500
"""Number of results; the oldest make way."""
_MOST_BYTES = 10_000_000


@dataclass(frozen=True)
class KeptChecks:
    """The results for the session in `folder`. `held` says how the check is contained, since the
    result depends on what it can reach. A file that is damaged or of another version counts as
    empty."""

    folder: Path
    held: str

    @property
    def _path(self) -> Path:
        return self.folder / _FILE

    def results(self, tree: str, command: str, limit_s: float) -> list[CheckResult]:
        """Return results of earlier runs that had at least the time that `limit_s` allows."""
        return [
            result
            for entry in self._entries()
            if (entry["tree"], entry["held"]) == (tree, self.held)
            and (result := CheckResult(**entry["result"])).command == command
            and (result.exit_code is not None or result.duration_s >= limit_s)
        ]

    def add(self, tree: str, result: CheckResult) -> None:
        """Keep a result. If it can't be written, the check is simply run again next time."""
        with suppress(OSError), locked(self._path):
            new = {"tree": tree, "held": self.held, "result": asdict(result)}
            dump_json(self._path, [*self._entries(), new][-_MOST:])

    def _entries(self) -> Iterator[dict[str, Any]]:
        try:
            entries = json.loads(read_private(self._path, _MOST_BYTES) or b"[]")
        except ValueError:
            return
        for entry in entries if isinstance(entries, list) else ():
            with suppress(TypeError, KeyError):
                CheckResult(**entry["result"])
                yield {name: entry[name] for name in ("tree", "held", "result")}


@dataclass(frozen=True)
class BisectOptions:
    """What to look for: the first step after which `check`, a command for bash, fails or, with
    `until_passes`, passes. Each state is checked `runs` times; if the runs differ, it counts as
    failed. With `again`, earlier results are not reused."""

    check: str
    until_passes: bool = False
    limit_s: float = 600.0
    runs: int = 1
    again: bool = False


@dataclass(frozen=True)
class Verdict:
    """The results of checking one state; `kept` of them are from earlier."""

    state: FileState
    results: Sequence[CheckResult]
    kept: int = 0

    @property
    def passed(self) -> bool:
        return all(result.passed for result in self.results)

    @property
    def is_flaky(self) -> bool:
        return len({result.passed for result in self.results}) > 1

    @property
    def worst(self) -> CheckResult:
        return min(self.results, key=lambda result: result.passed)


@dataclass(frozen=True)
class BisectResult:
    """The result. `first` is the first state at which the check does what was looked for, `before`
    the state just before it. Without `first`, it still does not at the end; without `before`, it
    does from the start."""

    first: Verdict | None
    before: Verdict | None
    verdicts: Sequence[Verdict]

    @property
    def checks_run(self) -> int:
        return sum(len(verdict.results) - verdict.kept for verdict in self.verdicts)


@dataclass
class Bisection:
    """The bisection of the session in `folder`, which is only read. `builder` has the settings in
    force; `redact` masks secrets in the output of checks; `notes` collects what people should
    know."""

    folder: Path
    builder: AgentBuilder
    options: BisectOptions
    redact: Callable[[str], str]
    notes: list[str] = field(default_factory=list)

    @cached_property
    def record(self) -> SessionRecord:
        record = read_session(self.folder)
        record.require_whole()
        return record

    @cached_property
    def store(self) -> Checkpoints:
        return checkpoints_of(self.folder, self.record.state.workspace)

    @cached_property
    def states(self) -> list[FileState]:
        """The states to compare. Raises SessionError if there are fewer than two."""
        events = self.record.events
        found = file_states(events, files_now(self.folder, self.store, events))
        if len(found) < 2:
            known = (
                "steps that changed files" if all_snapshots(events) else "snapshots of its files"
            )
            raise SessionError(f"session {self.folder.name} has no {known}")
        return found

    @property
    def most_checks(self) -> int:
        """The largest number of states that will be checked."""
        return 1 + ceil(log2(len(self.states)))

    def run(self, watch: Callable[[FileState, Callable[[], Verdict]], Verdict]) -> BisectResult:
        """Bisect. `watch` gets each state with a function that checks it, and must return the
        verdict. Raises UsageError if the check can't be run, ConfigError and SessionError."""
        require_command(self.options.check, self.builder.environ)
        known: dict[str, Verdict] = {}

        def verdict(index: int) -> Verdict:
            state = self.states[index]
            if state.tree not in known:
                known[state.tree] = watch(state, lambda: self._verdict(state))
            return replace(known[state.tree], state=state)

        last = verdict(len(self.states) - 1)
        if last.worst.is_no_command and verdict(0).worst.is_no_command:
            raise UsageError(
                f"the check can't be run: {last.worst.tail.strip() or 'there is no such command'}",
                hint="it is run where the session worked, in a copy of its files",
            )
        until = self.options.until_passes
        found = first_index(len(self.states), lambda index: verdict(index).passed is until)
        before = verdict(found - 1) if found else None
        return BisectResult(
            verdict(found) if found is not None else None, before, list(known.values())
        )

    def _verdict(self, state: FileState) -> Verdict:
        options = self.options
        kept = KeptChecks(self.folder, self._held)
        old = [] if options.again else kept.results(state.tree, options.check, options.limit_s)
        results = old[-options.runs :]
        for _ in range(options.runs - len(results)):
            result = self._checked(state.tree)
            results.append(result)
            if not result.is_no_command:
                kept.add(state.tree, result)
        return Verdict(state, results, kept=min(len(old), options.runs))

    @cached_property
    def _held(self) -> str:
        sandbox = self.builder.settings.sandbox
        return f"{sandbox.layer} network={sandbox.network} read={sandbox.read}"

    def _checked(self, tree: str) -> CheckResult:
        check = CopyCheck(self.builder, self.options.check, self.options.limit_s, self.redact)
        workspace = Path(self.record.state.workspace)
        result, notes = check.run(self.store, workspace, tree, self._idle)
        self.notes += [note for note in notes if note not in self.notes]
        return result

    @cached_property
    def _idle(self) -> Collection[str] | None:
        return idle_snapshots(self.record.events)


def first_index(count: int, holds: Callable[[int], bool]) -> int | None:
    """Return the first of `count` indices at which something holds, given that it then holds from
    there on; None if it does not hold at the last one. Asks about the last index first, then about
    at most log2(count), rounded up; about index 0 only if it holds at all others asked."""
    if not holds(count - 1):
        return None
    return bisect_left(range(count - 1), True, key=holds)
