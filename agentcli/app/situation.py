"""Where a session is now, told to its model after older work was summed up and when it is resumed:
the prompt is new to the provider's cache there anyway."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentcli.app.containment import Containment
from agentcli.app.policy import has_rules, rules_in_force
from agentcli.events import Event
from agentcli.events.actions import TaskTrackingAction
from agentcli.events.conversation import live, newest
from agentcli.events.observations import (
    CmdMetadata,
    CmdOutputObservation,
    FileEditObservation,
    FileWriteObservation,
)
from agentcli.git.safe import repository_status
from agentcli.memory.summary import open_tasks
from agentcli.sessions.session import SessionLog
from agentcli.shell.shell import Shell
from agentcli.system.programs import find_program
from agentcli.workspace.names import first_names, output_name

_GIT_LIMIT_S = 1.0
_MOST_CHANGES = 15
_MOST_FILES = 20
_MOST_RULES = 6
_OF_JOB_CHARS = 80


@dataclass(frozen=True)
class Situation:
    session: SessionLog
    containment: Containment
    shell: Shell

    def text(self, *, resumed: bool = False) -> str:
        """Return what the model should know. `resumed`: what ran for it before has ended."""
        events = live(self.session.events)
        last = len(self.session.events) - 1
        head = f"Where you are now, after event {last}; what is said of this above no longer holds:"
        lines = [
            f"- the shell is in {self.shell.cwd}",
            f"- {self._containment()}",
            *self._rules(),
            *self._jobs(events, resumed),
            *self._git(),
            *_changed_files(events),
        ]
        # After a condensation, its summary has them.
        tasks = open_tasks(newest(self.session.events, TaskTrackingAction)) if resumed else ()
        if tasks:
            lines += ["- your open tasks:", *(f"  {line}" for line in tasks)]
        return f"[{head}\n" + "\n".join(lines) + "]"

    def _containment(self) -> str:
        facts = self.containment.facts()
        if facts is None:
            return "commands run as the user, without a sandbox"
        where = ", ".join(facts.writable) or "$TMPDIR"
        network = "the network is open" if facts.network else "no network"
        if ports := ", ".join(map(str, facts.host_ports)):
            network += f" but ports {ports} of the host's loopback"
        return f"commands run in a sandbox ({facts.layer}) that can write to {where}; {network}"

    def _rules(self) -> Iterator[str]:
        settings, environ = self.containment.settings, self.containment.environ
        if not has_rules(settings, environ):
            return
        of_settings, saved = rules_in_force(settings, environ, self.containment.workspace)
        rules = [f"{rule.decision} {rule}" for rule in (*of_settings, *saved)]
        if rules:
            yield f"- rules of the user: {first_names(rules, _MOST_RULES)}"

    def _jobs(self, events: Sequence[Event], resumed: bool) -> Iterator[str]:
        if not resumed:
            for job in self.shell.jobs:
                ended = "has ended" if job.look() else "runs"
                code = f", exit {job.exit_code}" if job.exit_code is not None else ""
                yield f"- {job.job_id} {ended}{code}; log: {output_name(job.log)}"
            return
        for command, left in _jobs_left(events).values():
            log = output_name(Path(left.full_output_path or "?"))
            yield f"- {left.job_id} ({command[:_OF_JOB_CHARS]}) ended with agent; log: {log}"

    def _git(self) -> Iterator[str]:
        git, workspace = find_program("git"), self.containment.workspace
        if git is None:
            return
        found = repository_status(workspace, git, _GIT_LIMIT_S, self.containment.scope.may_read)
        if found is None:
            return
        if not found.changes:
            yield f"- git: {found.branch}, clean"
            return
        yield f"- git: {found.branch}, changed:"
        yield from (f"  {change}" for change in found.changes[:_MOST_CHANGES])
        if (more := len(found.changes) - _MOST_CHANGES) > 0:
            yield f"  … {more} more"


def _jobs_left(events: Sequence[Event]) -> Mapping[str, tuple[str, CmdMetadata]]:
    """Return the jobs of which the session did not see the end, with their commands."""
    left: dict[str, tuple[str, CmdMetadata]] = {}
    for event in events:
        job = event.metadata if isinstance(event, CmdOutputObservation) else None
        if job is None or job.job_id is None:
            continue
        if job.exit_code is not None or job.exit_unknown:
            left.pop(job.job_id, None)
        else:
            assert isinstance(event, CmdOutputObservation)
            left.setdefault(job.job_id, (" ".join(event.command.split()), job))
    return left


def _changed_files(events: Sequence[Event]) -> Iterator[str]:
    counts = Counter(
        event.path
        for event in events
        if isinstance(event, FileEditObservation | FileWriteObservation)
    )
    if counts:
        told = [f"{path} ({n} times)" if n > 1 else path for path, n in sorted(counts.items())]
        yield f"- files that you edited or wrote: {first_names(told, _MOST_FILES)}"
