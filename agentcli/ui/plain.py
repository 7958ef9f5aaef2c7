"""Plain terminals, on which nothing is redrawn, and the colours of the others."""

from __future__ import annotations

import os
from collections.abc import Mapping

from agentcli.ui.style import Colors

_TERMS = ("", "dumb", "unknown")


def is_plain(environ: Mapping[str, str]) -> bool:
    """Return whether the terminal can't be drawn on, or must not be (`make_plain`)."""
    return environ.get("TERM", "") in _TERMS


def make_plain() -> None:
    """Stop redrawing from now on, in this process and in programs that it starts."""
    os.environ["TERM"] = "dumb"


def terminal_colors(environ: Mapping[str, str]) -> Colors:
    """Return the colours of the terminal: none on a plain one, no hues under NO_COLOR."""
    if is_plain(environ):
        return "none"
    return "mono" if environ.get("NO_COLOR") else "full"
