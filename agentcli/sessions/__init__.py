"""The record of a task: its events, the state folded from them, their files. Which store holds them
is selected here, apart from the stores, which take long to load.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

FILES = "files"
INSTALL = "pip install 'agentcli[database]'"
"""How to install what every store other than files needs."""

_selector: Callable[[Path], str] | None = None


def set_store_selector(select: Callable[[Path], str]) -> None:
    """Let `select` say from now on where the sessions of a home are: `files`, or the URL of a
    database. It is called once for each home, when that is first needed, and may raise
    ConfigError."""
    global _selector
    _selector = cache(select)


def selected_store(home: Path) -> str:
    """Return where the sessions of `home` are. Raises ConfigError."""
    return _selector(home) if _selector else FILES
