"""Run one hook: a command of the user that reads JSON and answers with its exit code.

A hook often runs programs of the workspace (its tests, its linters), which commands of the session
may have changed. So it runs in the same sandbox as those commands, unless the user decided
otherwise.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from agentcli.interrupts import check, shield
from agentcli.sandbox.selection import Sandbox, SpawnOptions
from agentcli.shell.output import clean
from agentcli.system import processes

MAX_OUTPUT_BYTES = 65_536
"""Bytes kept of stdout and of stderr; the rest is read and dropped, so the hook never blocks."""
_CHUNK = 65_536
_MOST_PIPED = 1 << 20
"""Most bytes that a pipe can hold by default, whichever process writes to it."""
_TICK_S = 0.1
_END_POLL_S = 0.005
"""Poll interval when there is nothing left to wait on: the hook has closed its output, which most
programs do only by exiting."""
_REAP_S = 2.0
"""How long to wait for a killed hook: a process of another user (sudo) can't be killed."""
HOOK_MARK = "AGENT_HOOK_ID"
_NOT_BEGUN = "could not be started in the sandbox"
_CUT = "\n[… the rest is left out]"


@dataclass(frozen=True)
class HookRun:
    """The result of one run. `exit_code` is None if the hook timed out or could not be started
    (`fault` says which), and negative if a signal ended it. Escape sequences are removed from the
    output."""

    exit_code: int | None
    stdout: str = ""
    stderr: str = ""
    fault: str = ""


@dataclass
class HookRunner:
    """Runs hooks in `folder` with `environment`, inside `sandbox` if one is given that contains
    anything. All processes of a hook end with its run, except those that left its session."""

    folder: Path
    environment: Mapping[str, str]
    sandbox: Sandbox | None = None
    _options: SpawnOptions | None = None
    """Prepared once, as for the shell: finding the paths to hide takes longer than starting."""

    def __call__(
        self, command: str, payload: bytes, timeout_s: float, alive: Callable[[], None]
    ) -> HookRun:
        """Run `command` with sh and `payload` on stdin, and call `alive` about ten times a second.
        On an interrupt or a timeout, kill every process that it started."""
        was_prepared = self._options is not None
        run = self._tried(command, payload, timeout_s, alive)
        if run.fault == _NOT_BEGUN and was_prepared:
            # Paths that the sandbox was to hide or show may be gone by now.
            self._options = None
            run = self._tried(command, payload, timeout_s, alive)
        return run

    def _tried(
        self, command: str, payload: bytes, timeout_s: float, alive: Callable[[], None]
    ) -> HookRun:
        mark = os.urandom(16).hex()
        run = None
        whole = False
        try:
            # `run` must be set before an interrupt can strike, or the process would be left behind.
            # A pending interrupt strikes when the shield ends.
            with shield():
                try:
                    if self._options is None:
                        options = SpawnOptions(str(self.folder))
                        if self.sandbox is not None and self.sandbox.contains:
                            options = self.sandbox.spawn_options(str(self.folder))
                        self._options = options
                    process = self._popen(command, mark, self._options)
                except (OSError, ValueError, subprocess.SubprocessError) as error:
                    # ValueError: a NUL in the command or in the environment.
                    return HookRun(None, fault=f"could not be started: {error}")
                deadline = time.monotonic() + timeout_s
                run = _Run(process, payload, deadline, alive, f"{mark}\n".encode())
            try:
                run.begin()
            except OSError as error:
                return HookRun(None, fault=f"could not be watched: {error}")
            whole = run.exchange()
        finally:
            if run is not None:
                run.end(f"{HOOK_MARK}={mark}", thoroughly=not whole)
        if not whole:
            return HookRun(None, *run.texts(), fault=f"ran longer than {timeout_s:g} s")
        if not run.begun:
            return HookRun(None, *run.texts(), fault=_NOT_BEGUN)
        return HookRun(process.returncode, *run.texts())

    def _popen(self, command: str, mark: str, options: SpawnOptions) -> subprocess.Popen[bytes]:
        argv, environment = options.launch(
            ("/bin/sh", "-c", f"echo {mark}\n{command}"), {**self.environment, HOOK_MARK: mark}
        )
        # The hook gets a session of its own: ^C at the terminal reaches only us, and the hook can't
        # write to the terminal, which would act on its escape sequences.
        return subprocess.Popen(
            argv,
            cwd=options.cwd,
            env=environment,
            preexec_fn=options.preexec,
            # close_fds would also close the descriptors that bwrap must inherit; all our others are
            # close-on-exec anyway.
            close_fds=options.preexec is None,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )


class _Run:
    """Feeds a process and reads its output until it ends or times out. The shell that runs the hook
    prints `first_line`; if it is missing, the start failed before the shell ran."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        payload: bytes,
        deadline: float,
        alive: Callable[[], None],
        first_line: bytes,
    ) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self.process = process
        self._payload = payload
        self._deadline = deadline
        self._alive = alive
        self._first_line = first_line
        self._most = MAX_OUTPUT_BYTES + len(first_line)
        self._stdin: IO[bytes] = process.stdin
        self._kept: dict[IO[bytes], bytearray] = {
            process.stdout: bytearray(),
            process.stderr: bytearray(),
        }
        """The output kept of each stream, with one byte more if it had to be cut."""
        self._open = ExitStack()
        self._selector: selectors.BaseSelector
        self._pidfd: int | None = None

    def begin(self) -> None:
        """Start watching the process. Raises OSError, such as when too many files are open."""
        self._selector = self._open.enter_context(selectors.DefaultSelector())
        for stream in (self._stdin, *self._kept):
            os.set_blocking(stream.fileno(), False)
        self._selector.register(self._stdin, selectors.EVENT_WRITE, self._write)
        for stream in self._kept:
            self._selector.register(stream, selectors.EVENT_READ, partial(self._read, stream))
        self._pidfd = processes.open_pidfd(self.process.pid)
        if self._pidfd is not None:
            self._open.callback(os.close, self._pidfd)
            self._selector.register(self._pidfd, selectors.EVENT_READ, lambda: None)

    def exchange(self) -> bool:
        """Exchange data until the end, and return whether the process ended in time. Call `begin`
        first."""
        tick = time.monotonic() + _TICK_S
        # Don't wait for the end of the output: background processes may hold the pipes open.
        while not self._has_ended():
            check()
            now = time.monotonic()
            if now >= self._deadline:
                return False
            if now >= tick:
                tick = now + _TICK_S
                self._alive()
            wait = _TICK_S if self._selector.get_map() else _END_POLL_S
            self._serve(min(self._deadline - now, wait))
        if self._pidfd is not None:
            self._selector.unregister(self._pidfd)
        for _ in range(_MOST_PIPED // _CHUNK):
            if not self._serve(0):
                break
        return True

    def texts(self) -> tuple[str, str]:
        """Return what was kept of stdout and stderr."""
        out, err = (
            clean(bytes(kept[: self._most]).removeprefix(self._first_line)).strip()
            + (_CUT if len(kept) > self._most else "")
            for kept in self._kept.values()
        )
        return out, err

    @property
    def begun(self) -> bool:
        return next(iter(self._kept.values())).startswith(self._first_line)

    def end(self, mark: str, *, thoroughly: bool) -> None:
        """Kill the rest of the process's group, or `thoroughly` everything it started; reap it
        and close its streams."""
        with shield():
            # The process is not reaped yet, so no other group can have its number.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            if thoroughly:
                processes.kill_marked(mark)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(_REAP_S)
        self._open.close()
        for stream in (self._stdin, *self._kept):
            stream.close()

    def _has_ended(self) -> bool:
        """Return whether the process has ended, without reaping it where possible: until it is
        reaped no other process can get its pid, so its group can be killed safely."""
        if not hasattr(os, "waitid"):
            return self.process.poll() is not None
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.process.pid, options) is not None

    def _serve(self, seconds: float) -> bool:
        """Handle streams that are ready within `seconds`, and return whether there were any."""
        ready = self._selector.select(seconds)
        for key, _ in ready:
            key.data()
        return bool(ready)

    def _write(self) -> None:
        try:
            written = os.write(self._stdin.fileno(), self._payload[:_CHUNK])
        except BlockingIOError:
            return
        except OSError:
            # The hook does not read its input; its answer counts all the same.
            written = len(self._payload)
        self._payload = self._payload[written:]
        if not self._payload:
            self._selector.unregister(self._stdin)
            self._stdin.close()

    def _read(self, stream: IO[bytes]) -> None:
        try:
            data = os.read(stream.fileno(), _CHUNK)
        except BlockingIOError:
            return
        if not data:
            self._selector.unregister(stream)
        kept = self._kept[stream]
        kept += data[: self._most + 1 - len(kept)]
