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


_chosen: Callable[[Path], str] = _files


def choose_store(choose: Callable[[Path], str]) -> None:
    """Let `choose` say from now on where the sessions of a home are: `files`, or the URL of a
    database. It is called once for each home, when that is first needed, and may raise
    ConfigError."""
    global _chosen
    _chosen = cache(choose)


def chosen_store(home: Path) -> str:
    """Return where the sessions of `home` are. Raises ConfigError."""
    return _chosen(home)
