"""The session's browser. It starts with the first page, keeps one page open between calls, and ends
with the session.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentcli import interrupts
from agentcli.errors import ToolError
from agentcli.interrupts import shield
from agentcli.sandbox.bubblewrap import start_script
from agentcli.sandbox.selection import BUBBLEWRAP, Sandbox
from agentcli.system import processes
from agentcli.system.homes import expanded
from agentcli.system.processes import ENVIRONMENT_MARK
from agentcli.system.programs import find_program
from agentcli.workspace.folders import RootedFolder
from agentcli.workspace.private import OutputFolder, remove_tree

_NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    *("microsoft-edge", "microsoft-edge-stable", "brave-browser"),
)
_APPLICATIONS = ("Chromium", "Google Chrome", "Microsoft Edge", "Brave Browser")


class BrowserMissing(Exception):
    """No browser can be used. `remedy` is what the user can do about it."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(what)
        self.remedy = remedy


def find_browser(chosen: str) -> str:
    """Return the browser's program: the one `chosen` by the user, else the first one found. Raises
    BrowserMissing, also if Playwright is missing."""
    if find_spec("playwright") is None:
        raise BrowserMissing("Playwright is not installed", "pip install 'agentcli[browser]'")
    if chosen:
        path = str(expanded(chosen))
        if os.access(path, os.X_OK) and "/" in path:
            return path
        if found := find_program(chosen):
            return found
        raise BrowserMissing(
            f"tools.browser does not name a program: {chosen}", "change it in the settings"
        )
    on_mac = sys.platform == "darwin"
    programs = list(filter(None, map(find_program, _NAMES)))
    for folder in ("/Applications", str(expanded("~/Applications"))) if on_mac else ():
        bundled = [f"{folder}/{name}.app/Contents/MacOS/{name}" for name in _APPLICATIONS]
        programs += [path for path in bundled if os.access(path, os.X_OK)]
    for path in programs:
        # The browser of snap can't run in our sandbox.
        if not os.path.realpath(path).startswith("/snap/"):
            return path
    managers = {
        "apt-get": "apt-get install chromium (the snap version can't be used)",
        "dnf": "dnf install chromium",
        "pacman": "pacman -S chromium",
        "apk": "apk add chromium",
        "zypper": "zypper install chromium",
    }
    ways = (how for name, how in managers.items() if find_program(name))
    remedy = "brew install --cask chromium" if on_mac else next(ways, "install Chromium")
    raise BrowserMissing("no Chromium, Chrome, Edge or Brave is installed", remedy)


MAX_FILE_BYTES = 50_000_000
"""Largest download kept, in bytes."""
_START_S = 45.0
_GRACE_S = 30.0
"""Time for the driver's work after the steps; if it takes longer, the browser hangs."""
_LARGEST_ANSWER = 100_000_000
_CHUNK = 1 << 20
_OURS = str(Path(__file__).parents[2])
"""The folder that this package, and so the driver, is imported from."""
_DRIVER = "import sys; sys.path[:] = {path!r}; from agentcli.browser.driver import main; main()"
_PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
_PROFILE, _DOWNLOADS = "profile", "downloads"


@dataclass(frozen=True)
class Visit:
    """The page as it is after some steps, as the driver describes it. `files` are where the
    downloads are kept."""

    url: str
    title: str
    status: int | None
    text: str
    notes: Sequence[str]
    screenshots: Sequence[str]
    """PNG images, in base64."""
    files: Sequence[Path]
    error: str


@dataclass(frozen=True)
class BrowserSettings:
    """How to run the browser. `folder` is its own, and recreated at each start; `outputs` gets
    downloads and screenshots. `sandbox` returns the browser's sandbox, or None if there is none.
    `own_loopback` says whether the session's commands have a loopback of their own; `open_ports`
    are the ports of this machine that pages may reach."""

    folder: Path
    outputs: OutputFolder
    environ: Mapping[str, str]
    sandbox: Callable[[Path], Sandbox | None]
    program: str = ""
    own_loopback: bool = False
    open_ports: Sequence[int] = ()


class _Ended(Exception):
    """The driver has ended, alone or with the browser."""


@dataclass
class Browser:
    """Drives the session's browser; for the main thread only. Nothing is loaded or started before
    the first call."""

    settings: BrowserSettings
    _driver: subprocess.Popen[bytes] | None = None
    _identity: str = ""
    _rest: bytes = b""
    _notes: list[str] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return self._driver is not None and self._driver.poll() is None

    def perform(self, steps: Sequence[Mapping[str, str]], seconds: float) -> Visit:
        """Do the steps in order until one fails or `seconds` have passed. A browser that has ended
        since the last call is restarted, but steps that were interrupted by its end are never
        repeated. Raises ToolError; an interrupt ends the browser."""
        had_ended = self._driver is not None and not self.is_open
        if had_ended:
            self.close()
        if had_ended and (not steps or steps[0].get("do") != "goto"):
            raise _failed("The browser had ended, and its page is lost: open a page again.")
        try:
            self._start()
            self._send({"steps": list(map(dict, steps)), "seconds": seconds})
            answer = self._answer(seconds + _GRACE_S)
            notes = list(answer["notes"])
            files = [self._keep(str(f["file"]), str(f["name"]), notes) for f in answer["files"]]
            visit = Visit(**{**answer, "notes": notes, "files": list(filter(None, files))})
        except (_Ended, TimeoutError) as error:
            self.close()
            how = "stopped responding" if isinstance(error, TimeoutError) else f"ended: {error}"
            raise _failed(
                f"The browser {how}. It is unknown which steps were carried out. The page is lost; "
                "open one again."
            ) from error
        except BaseException:
            self.close()
            raise
        if not had_ended:
            return visit
        return replace(visit, notes=("The browser had ended and was restarted.", *visit.notes))

    def close(self) -> None:
        """End the browser and all its processes, and remove its folder."""
        driver, self._driver, self._rest = self._driver, None, b""
        if driver is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
        driver.communicate()
        processes.kill_marked(f"{ENVIRONMENT_MARK}={self._identity}")
        remove_tree(self.settings.folder)

    # --- the driver -----------------------------------------------------------------------------

    def _start(self) -> None:
        """Start the browser if needed. Raises ToolError, _Ended, TimeoutError."""
        if self._driver is not None:
            return
        try:
            program = find_browser(self.settings.program)
        except BrowserMissing as missing:
            message = f"There is no browser to use: {missing}. The user can fix that: "
            raise ToolError(f"{message}{missing.remedy}.", error_id="no_browser") from missing
        self._identity = os.urandom(8).hex()
        try:
            start = self._prepared(program)
            with shield():
                self._driver = self._spawned()
        except OSError as error:
            raise _failed(f"The browser could not be started: {error}.") from error
        self._send(start)
        if (failed := self._answer(_START_S).get("failed")) is not None:
            self.close()
            lines = [" ".join(line.split()) for line in str(failed).splitlines() if line.strip()]
            raise _failed(f"{program} did not start: {' / '.join(lines[:4])[:600]}")

    def _spawned(self) -> subprocess.Popen[bytes]:
        code = _DRIVER.format(path=[*sys.path, _OURS])
        with (self.settings.folder / "log").open("wb") as log:
            return subprocess.Popen(
                [sys.executable, "-I", "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment(),
                cwd="/",
                start_new_session=True,
            )

    def _environment(self) -> dict[str, str]:
        passed = {n: v for n, v in self.settings.environ.items() if n in _PASSED_ON}
        return {**passed, "HOME": str(self.settings.folder), ENVIRONMENT_MARK: self._identity}

    def _prepared(self, program: str) -> dict[str, Any]:
        """Recreate the browser's folder and return the driver's settings. Raises OSError."""
        settings, folder = self.settings, self.settings.folder
        remove_tree(folder)
        folder.mkdir(mode=0o700)
        inside, tmp = folder / "inside", folder / "tmp"
        for place in (inside, tmp, inside / _DOWNLOADS):
            place.mkdir(mode=0o700)
        env = {**self._environment(), "HOME": str(inside)}
        sandbox = settings.sandbox(folder)
        own_network = sandbox is not None and sandbox.layer == BUBBLEWRAP
        if sandbox is not None and own_network:
            bash = find_program("bash") or "/bin/bash"
            bwrap, scope = sandbox.program, sandbox.scope
            program = str(start_script(bwrap, scope, [program], env, folder, bash))
        return {
            "program": program,
            "profile": str(inside / _PROFILE),
            "downloads": str(inside / _DOWNLOADS),
            "env": env,
            "own_network": own_network,
            # Chromium's own sandbox works neither inside bubblewrap nor for root.
            "chromium_sandbox": not own_network and os.getuid() != 0,
            "own_loopback": settings.own_loopback,
            "open_ports": list(settings.open_ports),
        }

    def _send(self, value: object) -> None:
        """Send `value` to the driver. Raises _Ended."""
        assert self._driver is not None
        assert self._driver.stdin is not None
        try:
            self._driver.stdin.write(json.dumps(value).encode() + b"\n")
            self._driver.stdin.flush()
        except OSError as error:
            raise _Ended("it reads no input") from error

    def _answer(self, seconds: float) -> dict[str, Any]:
        """Wait for the driver's answer. Raises _Ended, TimeoutError."""
        assert self._driver is not None
        assert self._driver.stdout is not None
        deadline = time.monotonic() + seconds
        handle = self._driver.stdout.fileno()
        pieces = [self._rest]
        with selectors.DefaultSelector() as selector:
            selector.register(handle, selectors.EVENT_READ)
            while b"\n" not in pieces[-1]:
                interrupts.check()
                left = deadline - time.monotonic()
                wait = interrupts.longest_wait_s()
                if not selector.select(left if wait is None else min(left, wait)):
                    if time.monotonic() >= deadline:
                        raise TimeoutError
                    continue
                pieces.append(os.read(handle, _CHUNK))
                if not pieces[-1] or sum(map(len, pieces)) > _LARGEST_ANSWER:
                    text = ""
                    with suppress(OSError):
                        text = (self.settings.folder / "log").read_text(errors="replace").strip()
                    raise _Ended(text.rpartition("\n")[2].strip() or "it left no message")
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return dict(json.loads(line))

    def _keep(self, file: str, name: str, notes: list[str]) -> Path | None:
        """Copy a download out of the browser's folder, whose contents can't be trusted."""
        try:
            beneath = RootedFolder(self.settings.folder / "inside")
            try:
                handle = beneath.open(os.fsencode(f"{_DOWNLOADS}/{file}"), os.O_RDONLY)
            finally:
                beneath.close()
            with open(handle, "rb") as source:
                data = source.read(MAX_FILE_BYTES + 1)
            if len(data) > MAX_FILE_BYTES:
                raise OSError(f"it is larger than {MAX_FILE_BYTES // 1_000_000} MB")
            return self.settings.outputs.add(f"download-{{}}-{_plain(name)}", data)
        except OSError as error:
            notes.append(f"The download {_plain(name)} was not kept: {error}.")
            return None


def _plain(name: str) -> str:
    """Reduce an untrusted name to a harmless file name."""
    return re.sub(r"[^\w.-]+", "-", Path(name).name).strip(".-")[-100:] or "file"


def _failed(message: str) -> ToolError:
    return ToolError(message, error_id="browser_failed")
