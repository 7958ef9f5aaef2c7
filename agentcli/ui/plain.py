"""Plain terminals, on which nothing is redrawn."""

from __future__ import annotations

import os
from collections.abc import Mapping

_TERMS = ("", "dumb", "unknown")


def is_plain(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal can't be drawn on, or must not be (`make_plain`)."""
    return environ.get("TERM", "") in _TERMS


def make_plain() -> None:
    """Stop redrawing from now on, in this process and in programs that it starts."""
    os.environ["TERM"] = "dumb"
