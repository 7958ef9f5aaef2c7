"""Find the browser that the user has installed, or say what to install if there is none."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from importlib.util import find_spec

from agentcli.system.homes import expanded
from agentcli.system.programs import find_program

_NAMES = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    *("microsoft-edge", "microsoft-edge-stable", "brave-browser"),
)
_APPLICATIONS = ("Chromium", "Google Chrome", "Microsoft Edge", "Brave Browser")
_OF_SNAP = "/snap/"


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
    for path in _found():
        if not os.path.realpath(path).startswith(_OF_SNAP):
            return path
    raise BrowserMissing("no Chromium, Chrome, Edge or Brave is installed", _remedy())


def _found() -> Iterator[str]:
    yield from filter(None, map(find_program, _NAMES))
    if sys.platform == "darwin":
        for folder in ("/Applications", str(expanded("~/Applications"))):
            for name in _APPLICATIONS:
                path = f"{folder}/{name}.app/Contents/MacOS/{name}"
                if os.access(path, os.X_OK):
                    yield path


def _remedy() -> str:
    """Return a command that installs a browser. The one of snap can't run in our sandbox."""
    if sys.platform == "darwin":
        return "brew install --cask chromium"
    managers = {
        "apt-get": "apt-get install chromium (the snap version can't be used)",
        "dnf": "dnf install chromium",
        "pacman": "pacman -S chromium",
        "apk": "apk add chromium",
        "zypper": "zypper install chromium",
    }
    return next((told for name, told in managers.items() if find_program(name)), "install Chromium")
