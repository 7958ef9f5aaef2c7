"""Terminals on which nothing is redrawn."""

from __future__ import annotations

import os
from collections.abc import Mapping

_TERMS = ("", "dumb", "unknown")


def is_plain(environ: Mapping[str, str]) -> bool:
    """Whether the terminal can't be drawn on, or is not to be (`make_plain`)."""
    return environ.get("TERM", "") in _TERMS


def make_plain() -> None:
    """From now on nothing is redrawn, here and by programs that this process starts."""
    os.environ["TERM"] = "dumb"
