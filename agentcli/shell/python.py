"""The session's Python: a persistent interpreter of the workspace, which keeps its variables."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agentcli.sandbox.selection import SpawnOptions
from agentcli.shell.interpreter import (
    LATE_CHARS,
    Interpreter,
    InterpreterProcess,
    OnOutput,
    Running,
)
from agentcli.shell.output import Capture, LiveOutput, replace_surrogates
from agentcli.shell.terminal import Terminal
from agentcli.shell.terminal_request import Outcome, TerminalRequest
from agentcli.system import processes
from agentcli.system.processes import ENVIRONMENT_MARK, TerminalWait
from agentcli.system.programs import interpreter_of
from agentcli.workspace.images import ImageFault, data_url
from agentcli.workspace.private import read_private, write_private

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


class _PythonProcess(InterpreterProcess):
    _READY_S = 30.0

    def __init__(
        self, options: SpawnOptions, interpreter: str, *, folder: Path, env: Mapping[str, str]
    ) -> None:
        # A copy, because our own package need not be visible where the interpreter runs.
        source = Path(__file__).with_name("python_driver.py").read_bytes()
        driver = write_private(folder / "driver.py", source)
        command = (interpreter, str(driver), str(folder / "report"))
        super().__init__(interpreter, Terminal(options, command, folder=folder, env=env))

    def request(self, capture: Capture, **fields: str) -> TerminalRequest:
        nonce = self._nonce()
        request = TerminalRequest(
            self.terminal,
            nonce,
            capture,
            is_report=lambda text: _parse_report(text) is not None,
            before=self.late,
        )
        self.terminal.send_line(json.dumps({"nonce": nonce, **fields}).encode())
        return request

    _first_request = request


_Cell = Running[_PythonProcess]


class PythonInterpreter(Interpreter[_PythonProcess, _Cell, CellResult]):
    """A Python interpreter that starts in the workspace, its `cwd`."""

    _KIND = "python"
    _NAME = "interpreter"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.interpreter = interpreter_of(Path(self.cwd), self.env)

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
        process, notes = self._ready()
        terminal = process.terminal
        terminal.reset_modes()
        path = write_private(terminal.folder / "cell.py", replace_surrogates(code).encode())
        figures = str(terminal.folder / "figure-")
        request = process.request(self._capture(self.max_chars), code=str(path), images=figures)
        return self._follow(_Cell(request, process, notes), timeout, on_output)

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

    def _new_process(self) -> _PythonProcess:
        folder = self._new_folder()
        options = self.sandbox.spawn_options(self._existing_folder(), (folder,))
        return _PythonProcess(options, self.interpreter, folder=folder, env=self._env)

    def _replace(self, reason: str) -> str:
        self.restart()
        return f"{reason} and was restarted; its variables are lost"

    def _await(self, running: _Cell, timeout: float, live: LiveOutput) -> tuple[Outcome, bool]:
        request = running.request
        terminal = request.terminal
        outcome = request.wait(timeout, live=live, watch=lambda quiet: _waiting(terminal))
        timed_out = outcome is Outcome.TIMEOUT
        if timed_out:
            running.notes.append(f"interrupted after {timeout:g} s")
        if outcome is Outcome.WAITING:
            running.notes.append("interrupted: it waited for someone to type, which nobody can")
        if outcome not in (Outcome.DONE, Outcome.DIED):
            outcome = running.process.stop(request)
        return outcome, timed_out

    def _conclude(self, running: _Cell, outcome: Outcome, *, timed_out: bool) -> CellResult:
        request = running.request
        rendered = request.capture.render(self.max_chars)
        if late := self._late_output(running).strip():
            running.notes.append(f"written since the last cell:\n{late[-LATE_CHARS:]}")
        running.process.late = request.after
        error = True
        images: tuple[str, ...] = ()
        if request.report and (report := _parse_report(request.report[1])):
            error, names = report
            images = tuple(_figures(request.terminal.folder, names, running.notes))
        if outcome is not Outcome.DONE:
            code = running.process.exit_code()
            running.notes.append(self._replace(f"the interpreter ended (status {code})"))
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


def _waiting(terminal: Terminal) -> Outcome | None:
    front = terminal.foreground_processes()
    waits = processes.waits_for_terminal(front, polling_counts=False)
    return Outcome.WAITING if waits is TerminalWait.YES else None


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
