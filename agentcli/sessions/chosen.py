"""Which store is in use. Apart from what it leads to, which takes long to load."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

FILES = "files"
INSTALL = "pip install 'agentcli[database]'"
"""What any other store needs."""


def _files(home: Path) -> str:
    return FILES


_chosen: Callable[[Path], str] = _files


def choose_store(choose: Callable[[Path], str]) -> None:
    """From now on the sessions of a home are where `choose` says, which is asked once for each when
    someone needs to know: `files`, or the URL of a database. It may raise ConfigError."""
    global _chosen
    _chosen = cache(choose)


def chosen_store(home: Path) -> str:
    """Where the sessions of `home` are. Raises ConfigError."""
    return _chosen(home)
