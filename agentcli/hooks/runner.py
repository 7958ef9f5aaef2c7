"""Running one hook: a command of the user that reads JSON and answers with its exit code.

What a hook runs is often the workspace's (its tests, its linters), which commands of the session
may have changed: so it runs in their sandbox, unless the user said that it must not.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO
from uuid import uuid4

from agentcli.interrupts import shield
from agentcli.sandbox.choosing import Sandbox, SpawnOptions
from agentcli.shell.output import clean
from agentcli.system import processes

MAX_OUTPUT_BYTES = 65_536
"""Kept of each of stdout and stderr; the rest is read and dropped, so that nobody waits."""
_CHUNK = 65_536
_MOST_PIPED = 1 << 20
"""No pipe holds more by default, whoever writes to it."""
_TICK_S = 0.1
_REAP_S = 2.0
"""A process of another user (sudo) can't be killed and is not waited for longer."""
HOOK_MARK = "AGENT_HOOK_ID"
_NOT_BEGUN = "could not be started in the sandbox"
_CUT = "\n[… the rest is left out]"


class _NotStarted(Exception):
    """Says why."""


@dataclass(frozen=True)
class HookRun:
    """What came of one run. `exit_code` None: it ran out of time or could not be started, `fault`
    says which; negative: the number of the signal that ended it. Output is cleaned of escapes."""

    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    fault: str = ""


@dataclass
class HookRunner:
    """Runs hooks in `folder` with `environment` and, where one is given that contains anything, in
    `sandbox`; nothing of them outlives their run but what detached itself from their session."""

    folder: Path
    environment: Mapping[str, str]
    sandbox: Sandbox | None = None
    _options: SpawnOptions | None = None
    """To find out what must be hidden takes longer than to start: done once, as for the shell."""

    def __call__(
        self, command: str, payload: bytes, timeout_s: float, alive: Callable[[], None]
    ) -> HookRun:
        """Run `command` by sh with `payload` on stdin; `alive` is called some ten times a second.
        When interrupted, or out of time, all that it started is killed."""
        was_prepared = self._options is not None
        run = self._tried(command, payload, timeout_s, alive)
        if run.fault == _NOT_BEGUN and was_prepared:
            # What was there to be hidden or shown may be gone.
            self._options = None
            run = self._tried(command, payload, timeout_s, alive)
        return run

    def _tried(
        self, command: str, payload: bytes, timeout_s: float, alive: Callable[[], None]
    ) -> HookRun:
        mark = uuid4().hex
        run = None
        whole = False
        try:
            # A process that was started must be known here before an interrupt can strike, and that
            # strikes at the end of the shield.
            with shield():
                process = self._started(command, mark)
                deadline = time.monotonic() + timeout_s
                run = _Run(process, payload, deadline, alive, f"{mark}\n".encode())
            whole = run.exchange()
        except _NotStarted as error:
            return HookRun(None, fault=f"could not be started: {error}")
        finally:
            if run is not None:
                _end(run.process, f"{HOOK_MARK}={mark}", thoroughly=not whole)
                run.close()
        if not whole:
            return HookRun(None, *run.texts(), fault=f"ran longer than {timeout_s:g} s")
        if not run.begun:
            return HookRun(None, *run.texts(), fault=_NOT_BEGUN)
        return HookRun(process.returncode, *run.texts())

    def _started(self, command: str, mark: str) -> subprocess.Popen[bytes]:
        try:
            return self._popen(command, mark, self._options or self._prepared())
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            # ValueError: a NUL in the command or in the environment.
            raise _NotStarted(error) from error

    def _popen(self, command: str, mark: str, options: SpawnOptions) -> subprocess.Popen[bytes]:
        argv, environment = options.launch(
            ("/bin/sh", "-c", f"echo {mark}\n{command}"), {**self.environment, HOOK_MARK: mark}
        )
        # A session of its own: ^C at the terminal reaches us alone, and no hook reaches the
        # terminal, which would act on whatever it writes there.
        return subprocess.Popen(
            argv,
            cwd=options.cwd,
            env=environment,
            preexec_fn=options.preexec,
            # Else those that bwrap is to read would be closed too; ours close by themselves.
            close_fds=options.preexec is None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    def _prepared(self) -> SpawnOptions:
        """Raises OSError."""
        options = SpawnOptions(str(self.folder))
        if self.sandbox is not None and self.sandbox.contains:
            options = self.sandbox.spawn_options(str(self.folder))
        self._options = options
        return options


@dataclass
class _Run:
    """Feeds a process and listens to it until it has ended or its time is over."""

    process: subprocess.Popen[bytes]
    payload: bytes
    deadline: float
    alive: Callable[[], None]
    first_line: bytes
    """Of its output: told by the shell that runs the hook, and by nothing that fails before."""
    _selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)
    _kept: dict[int, bytearray] = field(default_factory=dict)
    _cut: set[int] = field(default_factory=set)

    def exchange(self) -> bool:
        """Whether the process ended in time."""
        for stream, events in self._streams():
            os.set_blocking(stream.fileno(), False)
            self._selector.register(stream, events)
        tick = time.monotonic() + _TICK_S
        while self._selector.get_map():
            now = time.monotonic()
            if now >= self.deadline:
                return False
            if now >= tick:
                tick = now + _TICK_S
                self.alive()
            for key, _ in self._selector.select(min(self.deadline - now, _TICK_S)):
                self._serve(key.fileobj)  # type: ignore[arg-type]
            # What it left running in the background may hold the pipes open, and fill them.
            if _has_ended(self.process):
                self._drain()
                return True
        return self._await_end()

    def texts(self) -> tuple[str, str]:
        """stdout and stderr, as far as they are kept."""
        shown = []
        for stream in (self.process.stdout, self.process.stderr):
            kept = bytes(self._kept.get(id(stream), b"")).removeprefix(self.first_line)
            shown.append(clean(kept).strip() + (_CUT if id(stream) in self._cut else ""))
        return shown[0], shown[1]

    @property
    def begun(self) -> bool:
        return self._kept.get(id(self.process.stdout), b"").startswith(self.first_line)

    def close(self) -> None:
        self._selector.close()
        for stream, _ in self._streams():
            stream.close()

    def _streams(self) -> list[tuple[IO[bytes], int]]:
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        return [
            (process.stdin, selectors.EVENT_WRITE),
            (process.stdout, selectors.EVENT_READ),
            (process.stderr, selectors.EVENT_READ),
        ]

    def _serve(self, stream: IO[bytes]) -> None:
        if stream is self.process.stdin:
            self._write(stream)
        else:
            self._read(stream)

    def _write(self, stream: IO[bytes]) -> None:
        try:
            written = os.write(stream.fileno(), self.payload[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:
            # It does not want to know; what it has to say counts all the same.
            written = len(self.payload)
        self.payload = self.payload[written:]
        if not self.payload:
            self._selector.unregister(stream)
            stream.close()

    def _read(self, stream: IO[bytes]) -> None:
        try:
            data = os.read(stream.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(stream)
            return
        kept = self._kept.setdefault(id(stream), bytearray())
        room = MAX_OUTPUT_BYTES + len(self.first_line) - len(kept)
        kept += data[:room]
        if len(data) > room:
            self._cut.add(id(stream))

    def _drain(self) -> None:
        """Take what the pipes hold by now."""
        for _ in range(_MOST_PIPED // _CHUNK):
            ready = [key.fileobj for key, _ in self._selector.select(0)]
            for stream in ready:
                if stream is not self.process.stdin:
                    self._read(stream)  # type: ignore[arg-type]
            if not ready:
                break

    def _await_end(self) -> bool:
        """It closed its output, which most do by ending."""
        pause = 0.001
        while not _has_ended(self.process):
            if time.monotonic() >= self.deadline:
                return False
            time.sleep(pause)
            pause = min(2 * pause, _TICK_S)
            self.alive()
        return True


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Without reaping it where that can be known: until then its number is nobody else's, so that
    its group can be killed safely."""
    if not hasattr(os, "waitid"):
        return process.poll() is not None
    options = os.WEXITED | os.WNOHANG | os.WNOWAIT
    return os.waitid(os.P_PID, process.pid, options) is not None


def _end(process: subprocess.Popen[bytes], mark: str, *, thoroughly: bool) -> None:
    """Kill what is left of its group and, `thoroughly`, what it started anywhere; reap it."""
    with shield():
        # Not reaped yet, so that the group's number is nobody else's.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        if thoroughly:
            processes.kill_marked(mark)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_REAP_S)
