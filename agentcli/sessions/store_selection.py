"""Which store is in use. Kept apart from the stores themselves, which take long to load."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

FILES = "files"
INSTALL = "pip install 'agentcli[database]'"
"""How to install what every store other than files needs."""


def _files(home: Path) -> str:
    return FILES


_selector: Callable[[Path], str] = _files


def set_store_selector(select: Callable[[Path], str]) -> None:
    """Let `select` say from now on where the sessions of a home are: `files`, or the URL of a
    database. It is called once for each home, when that is first needed, and may raise
    ConfigError."""
    global _selector
    _selector = cache(select)


def selected_store(home: Path) -> str:
    """Return where the sessions of `home` are. Raises ConfigError."""
    return _selector(home)
