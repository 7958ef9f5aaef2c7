"""The session's Python: a persistent interpreter of the workspace, which keeps its variables."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentcli.files.images import ImageFault, data_url
from agentcli.files.private import read_private, write_private
from agentcli.interrupts import shield
from agentcli.shell.exchange import Exchange, Outcome, stop
from agentcli.shell.interpreter import LATE_CHARS, STARTS, Interpreter, OnOutput, Running
from agentcli.shell.output import LiveOutput, clean, replace_surrogates
from agentcli.shell.terminal import Terminal
from agentcli.system import processes
from agentcli.system.processes import ENVIRONMENT_MARK, ProcessHandle, TerminalWait
from agentcli.system.workspace_python import interpreter_of

_READY_S = 30.0
_LARGEST_FIGURE = 50_000_000
_MOST_FIGURES = 8
"""As many as the driver saves."""
_FIGURE = re.compile(r"figure-\d+\.png", re.ASCII)


@dataclass(frozen=True)
class CellResult:
    output: str
    """Printed text, the value of a final expression, or the traceback; clean, cut if long."""
    error: bool
    """The code raised or did not finish."""
    images: tuple[str, ...]
    """PNG data: URLs, one for each figure that matplotlib drew."""
    duration_s: float
    timed_out: bool = False
    truncated: bool = False
    full_output_path: str | None = None
    notes: tuple[str, ...] = ()


class PythonInterpreter(Interpreter[Running, CellResult]):
    """A Python interpreter that starts in the workspace, its `cwd`."""

    _KIND = "python"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.interpreter = interpreter_of(Path(self.cwd), self.env)
        self._terminal: Terminal | None = None
        self._is_ready = False
        self._leader: ProcessHandle | None = None
        self._late = (b"", b"")

    def start(self) -> None:
        """Start the interpreter and return at once. Raises OSError if it can't be started."""
        if self._terminal is not None:
            return
        folder = self._new_folder()
        # A copy, because our own package need not be visible where the interpreter runs.
        source = Path(__file__).with_name("python_driver.py").read_bytes()
        driver = write_private(folder / "driver.py", source)
        options = self.sandbox.spawn_options(self._existing_folder(), (folder,))
        command = (self.interpreter, str(driver), str(folder / "report"))
        with shield():
            self._terminal = Terminal(options, command, folder=folder, env=self._env)
            self._followed = self._terminal

    def run(
        self,
        code: str,
        *,
        timeout: float = 120.0,
        on_output: OnOutput = None,
    ) -> CellResult:
        """Run `code`, interrupting it after `timeout` seconds.

        Raises OSError if the interpreter can't be started.
        """
        self.last_result = None
        terminal, notes = self._ready()
        terminal.reset_modes()
        path = write_private(terminal.folder / "cell.py", replace_surrogates(code).encode())
        figures = str(terminal.folder / "figure-")
        exchange = self._request(terminal, keep=self.max_chars, code=str(path), images=figures)
        return self._follow(Running(exchange, notes), timeout, on_output)

    def restart(self) -> None:
        """Start a fresh interpreter; all variables are lost."""
        self._drop()
        self.start()

    def close(self) -> None:
        """Kill the interpreter and everything that it started."""
        was_started = self._counter > 0
        self._drop()
        if was_started:
            processes.kill_marked(f"{ENVIRONMENT_MARK}={self.identity}")

    def _ready(self) -> tuple[Terminal, list[str]]:
        notes = []
        if self._terminal is not None and not self._terminal.alive:
            notes.append(self._replace())
        if self._terminal is not None and not self._terminal.report_path.exists():
            self.restart()
            notes.append("the interpreter had lost its files and was restarted")
        terminal = self._answering()
        return terminal, [
            *notes,
            *self._open_ports(terminal, self._leader.pid if self._leader else 0),
        ]

    def _answering(self, starts: int = STARTS) -> Terminal:
        self.start()
        assert self._terminal is not None
        if self._is_ready:
            return self._terminal
        exchange = self._request(self._terminal)
        outcome = exchange.wait(_READY_S)
        if outcome is Outcome.DONE:
            self._is_ready = True
            self._leader = self._terminal.foreground_leader()
            return self._terminal
        self._drop()
        if outcome is Outcome.DIED and starts > 1:
            return self._answering(starts - 1)
        said = clean(exchange.before).strip()
        raise OSError(f"{self.interpreter} did not start: {said or outcome.value}")

    def _request(self, terminal: Terminal, *, keep: int = 0, **fields: str) -> Exchange:
        nonce = f"{self.identity}x{self._next()}"
        exchange = Exchange(
            terminal,
            nonce,
            self._capture(keep),
            is_report=lambda text: _parse_report(text) is not None,
            before=self._late,
        )
        terminal.send_line(json.dumps({"nonce": nonce, **fields}).encode())
        return exchange

    def _drop(self) -> None:
        terminal, self._terminal = self._terminal, None
        leader, self._leader = self._leader, None
        self._is_ready = False
        self._late = (b"", b"")
        if terminal is not None:
            terminal.close()
        if leader is not None:
            leader.close()

    def _replace(self) -> str:
        code = self._terminal.exit_code if self._terminal else 0
        self.restart()
        return f"the interpreter ended (status {code}) and was restarted; its variables are lost"

    def _await(self, running: Running, timeout: float, live: LiveOutput) -> tuple[Outcome, bool]:
        exchange = running.exchange
        outcome = exchange.wait(timeout, live=live, watch=self._watch(exchange))
        timed_out = outcome is Outcome.TIMEOUT
        if timed_out:
            running.notes.append(f"interrupted after {timeout:g} s")
        if outcome is Outcome.WAITING:
            running.notes.append("interrupted: it waited for someone to type, which nobody can")
        if outcome not in (Outcome.DONE, Outcome.DIED):
            outcome = self._stop(running)
        return outcome, timed_out

    def _watch(self, exchange: Exchange) -> Callable[[float], Outcome | None]:
        def look(quiet: float) -> Outcome | None:
            front = exchange.terminal.foreground_processes()
            waits = processes.waits_for_terminal(front, polling_counts=False)
            return Outcome.WAITING if waits is TerminalWait.YES else None

        return look

    def _stop(self, running: Running) -> Outcome:
        return stop(running.exchange, self._leader)

    def _conclude(self, running: Running, outcome: Outcome, *, timed_out: bool) -> CellResult:
        exchange = running.exchange
        rendered = exchange.capture.render(self.max_chars)
        if late := self._late_output(running).strip():
            running.notes.append(f"written since the last cell:\n{late[-LATE_CHARS:]}")
        self._late = exchange.after
        error = True
        images: tuple[str, ...] = ()
        if exchange.report and (report := _parse_report(exchange.report[1])):
            error, names = report
            images = tuple(_figures(exchange.terminal.folder, names, running.notes))
        if outcome is not Outcome.DONE:
            exchange.terminal.kill()
            exchange.terminal.reap()
            running.notes.append(self._replace())
        return CellResult(
            output=rendered.text,
            error=error,
            images=images,
            duration_s=time.monotonic() - running.started,
            timed_out=timed_out,
            truncated=rendered.truncated,
            full_output_path=rendered.path,
            notes=tuple(running.notes),
        )


def _parse_report(text: str) -> tuple[bool, list[str]] | None:
    """Return whether the code raised, and its figures' files; None if it is no report of our
    driver. Code can write reports as well, and must not have other files read or removed through
    them.
    """
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if report == {}:
        return False, []
    match report:
        case {"error": bool(error), "images": list(paths)} if len(paths) <= _MOST_FIGURES:
            names = [Path(path).name for path in paths if isinstance(path, str)]
            return error, [name for name in names if _FIGURE.fullmatch(name)]
    return None


def _figures(folder: Path, names: Sequence[str], notes: list[str]) -> Iterator[str]:
    """Yield the images, removing them from `folder`, and note each that no model would accept."""
    for number, name in enumerate(names, 1):
        file = folder / name
        data = read_private(file, _LARGEST_FIGURE) or b""
        with suppress(OSError):
            file.unlink()
        try:
            yield data_url(data)
        except ImageFault as fault:
            notes.append(f"figure {number} {fault}")
