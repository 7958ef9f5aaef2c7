"""The session's shell: one persistent bash that keeps its folder, variables and functions."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from agentcli.interrupts import shield
from agentcli.sandbox.hints import WithheldEnvironment, differences
from agentcli.sandbox.selection import Sandbox
from agentcli.shell import bash_lines
from agentcli.shell.bash import Bash, stop_at_limit
from agentcli.shell.bash_lines import head_share, parts_of, with_marks
from agentcli.shell.interpreter import LATE_CHARS, CommandResult, Interpreter, OnOutput, Running
from agentcli.shell.jobs import NEW_SHELL, SENT, DetachedJob, Job, begin_job
from agentcli.shell.output import LiveOutput
from agentcli.shell.terminal import Terminal, typed
from agentcli.shell.terminal_request import Outcome
from agentcli.shell.variables import Exports, storable
from agentcli.system import processes
from agentcli.system.processes import ENVIRONMENT_MARK
from agentcli.workspace.private import DISK_BYTES, remove_tree, reserve

_LONGEST_TYPED_LINE = 4000
_JOB_CHARS = 4000
"""Characters of a job's log in a result, which may be requested again and again."""

_KEPT = "variables exported by earlier commands are kept, other variables and functions are lost"
_NO_FOLDER = "no longer exists"
_STARTED_ANEW = f"the shell was started anew, to find what the user named; {_KEPT}"
_NOT_TOLD_APART = "the job can't be told from the shell's other processes; it ends with the shell"


@dataclass(kw_only=True)
class _Running(Running[Bash]):
    layer: str
    stdin: bool = False
    quiet_shell: bool = True
    parts: Sequence[str] = ()
    apart: bool = False
    """Runs in a bash of its own beside the session's."""


@dataclass(kw_only=True, eq=False, repr=False)
class Shell(Interpreter[Bash, _Running, CommandResult]):
    """`full_env` is the whole environment of commands that `run_wider` lets out of the `sandbox`,
    except for the `withheld_environment`, given by variable. `exports` are the changes that earlier
    commands made to the exported variables. bash, and each that replaces it, starts with those
    changes that may enter its sandbox and with those of its own commands. `first_notes` go into the
    first result.
    """

    _KIND = "bash"
    _NAME = "shell"

    full_env: Mapping[str, str] | None = None
    withheld_environment: Mapping[str, Sequence[str]] = field(default_factory=dict)
    exports: Exports = field(default_factory=Exports)
    first_notes: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self._full_env = {**(self.full_env or self.env), **self._marks}
        self._withheld = WithheldEnvironment(self.withheld_environment)
        self._job_folder = self.scratch / f"jobs-{self.identity}"
        self._next_notes = [*self.first_notes]
        self._told_folder = self.cwd
        """The folder that the newest result has told."""
        self._running: _Running | None = None
        self._new_exports: dict[str, str | None] = {}
        """Changes that no result has reported yet."""
        self._new_layers: set[str] = set()
        """The layers in which they were set."""
        self._jobs: dict[str, Job] = {}
        self._used = False
        """Whether the shell may hold functions and variables of commands."""
        self._foreground: Terminal | None = None
        """The terminal of the command that is being waited for."""

    def current_exports(self) -> dict[str, str | None]:
        """Return what earlier commands changed of the exported variables of the shell's own bash;
        None means unset."""
        return self.exports.inside(self.sandbox.layer, self._env)

    @property
    def jobs(self) -> tuple[Job, ...]:
        return tuple(self._jobs.values())

    def run(
        self,
        command: str,
        *,
        timeout: float = 120.0,
        stdin: bool = False,
        on_output: OnOutput = None,
    ) -> CommandResult:
        """Run `command` and wait at most `timeout` seconds for it to end.

        Its stdin is empty unless `stdin` connects it to the terminal, where `send_input` types.
        Raises ValueError for a command that no shell can take, OSError if bash can't be started.
        """
        script = bash_lines.encode_command(command)
        self.last_result = None
        self._used = True
        bash, notes = self._ready()
        quiet_shell = not bash_lines.NOISY_FLAGS & set(bash.flags)
        if (parts := parts_of(command)) and quiet_shell:
            script = bash_lines.encode_command(with_marks(parts))
        if not self.sandbox.contains:
            notes += self._withheld.notes(command)
        capture = self._capture(self.max_chars, head_share(command))
        request = bash.begin(script, capture, stdin=stdin)
        running = _Running(
            request,
            bash,
            notes,
            layer=self.sandbox.layer,
            stdin=stdin,
            quiet_shell=quiet_shell,
            parts=parts,
        )
        return self._follow(running, timeout, on_output)

    def run_wider(
        self,
        command: str,
        sandbox: Sandbox,
        *,
        timeout: float = 120.0,
        on_output: OnOutput = None,
    ) -> CommandResult:
        """Run one command in another sandbox, in its own bash that starts in the shell's folder
        with its exported variables; the shell takes over the folder and the exports that it ends
        with. What the command leaves running is ended with it. Outside of all sandboxes, variables
        that make programs load code are withheld.

        Raises like `run`; a command that waits for input is stopped.
        """
        script = bash_lines.encode_command(command)
        self.last_result = None
        main, notes = self._ready()
        env, cwd = self._env, self._existing_folder()
        if cwd != self.cwd:
            notes.append(f"{self.cwd} {_NO_FOLDER}; the shell started in {cwd}")
        if not sandbox.contains:
            env, cwd = self._full_env, str(self.sandbox.real_path(cwd))
            withheld = self.exports.withheld(sandbox.layer, env)
            notes += differences(withheld, self.sandbox, command)
            notes += self._withheld.notes(command)
        before = self.current_exports()
        made: list[Bash] = []

        def start() -> Bash:
            with shield():
                made.append(self._new_bash(sandbox, env, cwd))
            return made[-1]

        try:
            bash = self._awaited(start, lambda: made[-1].close())
            request = bash.begin(script, self._capture(self.max_chars), stdin=False)
            running = _Running(request, bash, notes, layer=sandbox.layer, apart=True)
            result = self._follow(running, timeout, on_output)
        finally:
            detached = {job.bash for job in self._jobs.values() if isinstance(job, DetachedJob)}
            if made and made[-1] not in detached:
                ended = _end(made[-1])
        if result.job_id is not None:
            return result
        self.last_result = result = replace(result, notes=(*result.notes, *ended))
        after = self.current_exports()
        changed = {k: v for k, v in after.items() if (k, v) not in before.items()}
        main.ask(bash_lines.take_over_script(self.cwd, changed), self._capture())
        main.changed_exports()
        return result

    def send_input(
        self, text: str, *, timeout: float = 120.0, on_output: OnOutput = None
    ) -> CommandResult:
        """Type `text` and Enter (no Enter after a lone control character) for a waiting command.

        Raises ValueError if no command waits, or a line is longer than a terminal takes.
        """
        running = self._running
        if running is None:
            raise ValueError("no command is waiting for input")
        terminal = running.process.terminal
        data = typed(text)
        if terminal.is_canonical and max(map(len, data.split(b"\n"))) > _LONGEST_TYPED_LINE:
            raise ValueError(f"a terminal takes at most {_LONGEST_TYPED_LINE} bytes in one line")
        self.last_result = None
        running.started = time.monotonic()
        terminal.type(data)
        return self._follow(running, timeout, on_output)

    def run_in_background(self, command: str) -> CommandResult:
        """Start `command` with the shell's folder and variables and return at once.

        Raises ValueError like `run`, OSError if the shell can't start it.
        """
        script = bash_lines.encode_command(command)
        bash, notes = self._ready()
        job_id = f"job-{len(self._jobs) + 1}"
        limit = min(DISK_BYTES, self.outputs.room)
        notes += [] if limit else [f"the output of the job is not kept: {self.outputs.full}"]
        log = reserve(self.outputs.path / f"bash-{self.identity[:6]}-{job_id}.log")
        self.outputs.add_log(log)
        job = begin_job(bash, self._job_folder / job_id, script, log, limit, self._capture())
        self._jobs[job_id] = job
        if job.process is None and not job.over:
            notes.append(f"{_NOT_TOLD_APART}, and can't be stopped before")
        return self._job_result(job, notes)

    def send_to_background(self) -> bool:
        """Turn the command being waited for into a job, so that `run` returns at once. Return False
        if there is none. Callable from any thread."""
        foreground = self._foreground
        if foreground is not None:
            foreground.wake()
        return foreground is not None

    def job_status(self, job_id: str) -> CommandResult:
        """Return what the job has written so far, and its exit code once it has ended.

        Raises ValueError for an unknown job, as `stop_job` does.
        """
        job = self._job(job_id)
        job.look()
        return self._job_result(job)

    def stop_job(self, job_id: str) -> CommandResult:
        """End the job and everything that it started."""
        job = self._job(job_id)
        notes = [] if job.stop() else [f"{_NOT_TOLD_APART}: ask for that with restart"]
        return self._job_result(job, notes)

    def restart(self) -> None:
        """Start a fresh shell in the same folder with the same exports. Everything that ran in the
        old one ends with it, including background jobs."""
        self._drop()
        ended = [job.job_id for job in self._jobs.values() if job.end_with_shell()]
        if ended:
            self._next_notes.append(f"ended with the shell: {', '.join(ended)}")
        self._spawn()

    def look_anew(self) -> bool:
        """Let the next command see what the sandbox shows by now. Return whether that must wait
        because it would end what runs in the background."""
        runs = self._running is not None or not all(job.look() for job in self._jobs.values())
        if self._process is not None and not runs:
            self.restart()
            self._next_notes += [_STARTED_ANEW] * self._used
            self._used = False
        return runs

    def end_all(self) -> None:
        """Kill the shell and everything that it started; the next command gets a fresh one."""
        self._drop()
        processes.kill_marked(f"{ENVIRONMENT_MARK}={self.identity}")
        for job in self._jobs.values():
            job.end_with_shell()

    def close(self) -> None:
        """Kill the shell and everything that it started, for good."""
        self.end_all()
        for job in self._jobs.values():
            job.close()
        remove_tree(self._job_folder)

    def _new_process(self) -> Bash:
        self.cwd = self._existing_folder()
        return self._new_bash(self.sandbox, self._env, self.cwd)

    def _folder_fault(self, bash: Bash) -> str:
        """Return what is wrong with the folder that `bash` is in; empty if nothing is."""
        try:
            # Where a folder was removed, its name may stand for a new one, which bash is not in.
            removed = not Path(f"/proc/{bash.leader}/cwd").stat().st_nlink
        except OSError:
            removed = False
        if not self.sandbox.real_path(bash.cwd).is_dir():
            return f"the shell's folder, {bash.cwd}, {_NO_FOLDER}: cd to another"
        if removed:
            return f"{bash.cwd} was removed and made anew; the shell is in the old one until it cds"
        return ""

    def _place(self, bash: Bash) -> str:
        return "" if self._folder_fault(bash) else f", in {bash.cwd}"

    def _new_bash(self, sandbox: Sandbox, env: Mapping[str, str], cwd: str) -> Bash:
        self._job_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = self._new_folder()
        options = sandbox.spawn_options(cwd, (folder, self._job_folder))
        exports = self.exports.inside(sandbox.layer, env)
        return Bash(options, folder=folder, cwd=cwd, env=env, exports=exports)

    def _drop(self) -> None:
        self._running = None
        super()._drop()

    def _ready(self) -> tuple[Bash, list[str]]:
        stopped = []
        if self._running is not None:
            running, self._running = self._running, None
            running.process.stop(running.request)
            self._take_over(running)
            stopped.append("the command that waited for input was stopped")
        bash, notes = super()._ready()
        first, self._next_notes = self._next_notes, []
        if self.cwd != self._told_folder:
            first.append(f"{self._told_folder} {_NO_FOLDER}; the shell started in {self.cwd}")
            self._told_folder = self.cwd
        return bash, [*first, *stopped, *notes]

    def _replace(self, reason: str) -> str:
        self.restart()
        return f"{reason} and was restarted in {self.cwd}; {_KEPT}"

    def _await(self, running: _Running, timeout: float, live: LiveOutput) -> tuple[Outcome, bool]:
        bash, request = running.process, running.request
        self._running = None
        self._foreground = bash.terminal
        try:
            outcome = bash.follow(request, timeout, live=live, stdin=running.stdin)
        finally:
            self._foreground = None
        timed_out = outcome is Outcome.TIMEOUT
        if timed_out:
            outcome, note = stop_at_limit(
                bash, request, timeout, running.parts, None if running.apart else self._place
            )
            running.notes.append(note)
        elif outcome is Outcome.WAITING and running.apart:
            running.notes.append("stopped: it waited for input, which can't be given here")
            outcome = bash.stop(request)
        return outcome, timed_out

    def _conclude(self, running: _Running, outcome: Outcome, *, timed_out: bool) -> CommandResult:
        if outcome is Outcome.WOKEN:
            try:
                return self._detach(running)
            except OSError as error:
                running.notes.append(f"stopped: it could not go to the background: {error}")
                outcome = running.process.stop(running.request)
        bash, request = running.process, running.request
        rendered = request.capture.render(self.max_chars, bash.script_text)
        waiting = outcome is Outcome.WAITING
        late = self._late_output(running) if running.quiet_shell else ""
        if late := bash_lines.JOB_NOTICE.sub("", late).strip():
            tail = late[-LATE_CHARS:]
            running.notes.append(f"written by background processes since the last command:\n{tail}")
        if waiting:
            request.capture = self._capture(self.max_chars)
            self._running = running
        code = None if waiting else self._finish(running, outcome)
        self._told_folder = self.cwd
        ended = waiting or running.apart or outcome is not Outcome.DONE
        fault = "" if ended else self._folder_fault(bash)
        notes, running.notes = tuple(running.notes), []
        exports, self._new_exports = storable(self._new_exports), {}
        layers, self._new_layers = self._new_layers, set()
        own_layer = self.sandbox.layer if layers else ""
        return CommandResult(
            output=rendered.text,
            exit_code=code,
            cwd=self.cwd,
            folder_fault=fault,
            duration_s=time.monotonic() - running.started,
            pid=bash.leader,
            timed_out=timed_out,
            waiting_for_input=waiting,
            truncated=rendered.truncated,
            full_output_path=rendered.path,
            notes=notes,
            exports=exports,
            exports_layer=next(iter(layers)) if len(layers) == 1 else own_layer,
        )

    def _take_over(self, running: _Running) -> None:
        """Update this shell from what the end of the command reports."""
        running.process.conclude(running.request)
        exports = running.process.changed_exports()
        if exports:
            self.exports.add(exports, running.layer)
            self._new_exports |= exports
            self._new_layers.add(running.layer)

    def _finish(self, running: _Running, outcome: Outcome) -> int:
        """Return the command's exit code; replace a shell that did not survive the command."""
        bash = running.process
        self._take_over(running)
        if not running.apart or bash.cwd != str(self.sandbox.real_path(self.cwd)):
            self.cwd = bash.cwd
        if outcome is Outcome.DONE:
            return bash.status
        code, reason = 128 + signal.SIGKILL, "the shell no longer answered"
        if outcome is Outcome.DIED:
            code = bash.exit_code()
            reason = f"the shell ended (status {code})"
        if not running.apart:
            running.notes.append(self._replace(reason))
        return code

    def _detach(self, running: _Running) -> CommandResult:
        """Let the command continue as a job with its bash; the next command gets another."""
        with shield():
            job = DetachedJob(
                f"job-{len(self._jobs) + 1}",
                running.process,
                running.request,
                cwd=self.cwd,
                started=running.started,
                apart=running.apart,
            )
            self._jobs[job.job_id] = job
            if not running.apart:
                self._process, self._used = None, False
            notes = [*running.notes, f"{SENT} {job.job_id}"]
            notes += [] if running.apart else [f"{NEW_SHELL} {self._existing_folder()}"]
            self.last_result = self._job_result(job, notes, self.max_chars)
        return self.last_result

    def _job(self, job_id: str) -> Job:
        if job_id not in self._jobs:
            known = ", ".join(self._jobs) or "none"
            raise ValueError(f"unknown job {job_id!r}; known: {known}")
        return self._jobs[job_id]

    def _job_result(
        self, job: Job, notes: Sequence[str] = (), max_chars: int = _JOB_CHARS
    ) -> CommandResult:
        rendered = job.output(min(self.max_chars, max_chars))
        return CommandResult(
            output=rendered.text,
            exit_code=job.exit_code,
            exit_unknown=job.over and job.exit_code is None,
            cwd=job.cwd,
            duration_s=time.monotonic() - job.started,
            pid=job.pid,
            truncated=rendered.truncated,
            full_output_path=str(job.log),
            job_id=job.job_id,
            notes=tuple(notes),
        )


def _end(bash: Bash) -> list[str]:
    """End `bash` with everything that it started; return notes about that."""
    with shield():
        left, going_on = bash.end()
    if going_on:
        return [f"{going_on} processes that it left run as another user and could not be ended"]
    return [f"{left} processes that it left running were ended with it"] if left else []
