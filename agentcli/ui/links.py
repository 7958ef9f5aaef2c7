"""Links that a terminal can open, made of addresses and paths that others wrote."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from functools import cache
from urllib.parse import quote

URL = re.compile(r"https?://[^\s<>\"'`│]*[^\s<>\"'`│.,:;!?)\]}*_~]")
"""An address within text, without the punctuation of the sentence around it."""

_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "rio", "Tabby"})
_TERMS = frozenset({"xterm-kitty", "xterm-ghostty", "alacritty", "foot", "foot-extra", "wezterm"})
_VTE_WITH_LINKS = 5_000
_TMUX_WITH_LINKS = (3, 4)
_LONGEST = 2_000


def supported(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the terminal is known to have links. FORCE_HYPERLINK, 0 or 1, says so by hand."""
    forced = environ.get("FORCE_HYPERLINK")
    if forced is not None:
        return forced not in ("", "0")
    term, program = environ.get("TERM", ""), environ.get("TERM_PROGRAM", "")
    if environ.get("TMUX") or program == "tmux":
        return program == "tmux" and _version(environ) >= _TMUX_WITH_LINKS
    if term.startswith(("screen", "dumb", "linux")):
        return False
    vte = environ.get("VTE_VERSION", "")
    return (
        program in _PROGRAMS
        or term in _TERMS
        or "WT_SESSION" in environ
        or (vte.isdecimal() and int(vte) >= _VTE_WITH_LINKS)
    )


def _version(environ: Mapping[str, str]) -> tuple[int, ...]:
    found = re.match(r"(\d+)\.(\d+)", environ.get("TERM_PROGRAM_VERSION", ""))
    return tuple(map(int, found.groups())) if found else ()


def url_link(url: str) -> str:
    """The address for a link, in ASCII; empty for what is none of the web or is too long."""
    link = quote(url, safe=":/?#[]@!$&'()*+,;=%~-._")
    return link if re.match(r"https?://\w", link) and len(link) <= _LONGEST else ""


def path_link(path: str) -> str:
    """A link to a file by its absolute path; empty for a relative one."""
    if not path.startswith("/") or path.startswith("//"):
        return ""
    link = f"file://{_host()}{quote(path, errors='surrogateescape')}"
    return link if len(link) <= _LONGEST else ""


@cache
def _host() -> str:
    """Terminals open a path of their own machine only."""
    return quote(socket.gethostname())
