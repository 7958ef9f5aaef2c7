"""Make links that a terminal can open from untrusted URLs and paths."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from functools import cache
from urllib.parse import quote

URL = re.compile(r"https?://[^\s<>\"'`│]*[^\s<>\"'`│.,:;!?)\]}*_~]")
"""A URL within text, without the punctuation of the sentence around it."""

_PROGRAMS = frozenset({"iTerm.app", "WezTerm", "vscode", "ghostty", "rio", "Tabby"})
_TERMS = frozenset({"xterm-kitty", "xterm-ghostty", "alacritty", "foot", "foot-extra", "wezterm"})
_VTE_WITH_LINKS = 5_000
_TMUX_WITH_LINKS = (3, 4)
_LONGEST = 2_000


def terminal_opens_links(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the terminal is known to support links. FORCE_HYPERLINK overrides this: 0 or
    empty means no, anything else yes."""
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
    """Return the URL of a link, in ASCII; empty if it is no web address or too long."""
    link = quote(url, safe=":/?#[]@!$&'()*+,;=%~-._")
    return link if re.match(r"https?://\w", link) and len(link) <= _LONGEST else ""


def path_link(path: str) -> str:
    """Return a link to a file by its absolute path; empty for a relative path."""
    if not path.startswith("/") or path.startswith("//"):
        return ""
    link = f"file://{_host()}{quote(path, errors='surrogateescape')}"
    return link if len(link) <= _LONGEST else ""


@cache
def _host() -> str:
    """Return this machine's name: terminals only open paths of their own machine."""
    return quote(socket.gethostname())
