"""Rules for ports of the machine's own loopback: network(127.0.0.1:5432)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

NETWORK = "network"
_HOST_PORT = re.compile(r"(?:127\.0\.0\.1|localhost):(\d{1,5})", re.ASCII)
_RULE = re.compile(rf"\s*{NETWORK}\((.*)\)\s*", re.ASCII)
_LARGEST = 65_535
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def is_loopback(url: str) -> bool:
    """Return whether an address leads to the machine on which it is opened."""
    try:
        host = (urlsplit(url).hostname or "").rstrip(".").lower()
    except ValueError:
        return False
    return host in _LOOPBACK or host.endswith(".localhost")


def port_of(pattern: str) -> int | None:
    """Return the port that such a rule names in its brackets; None if it is not a loopback port."""
    found = _HOST_PORT.fullmatch(pattern.strip())
    port = int(found[1]) if found else 0
    return port if 0 < port <= _LARGEST else None


def host_ports(allowed: Iterable[str], denied: Iterable[str]) -> tuple[int, ...]:
    """Return the ports that a rule allows and none denies."""
    wanted, unwanted = set(_ports(allowed)), set(_ports(denied))
    return () if NETWORK in map(str.strip, denied) else tuple(sorted(wanted - unwanted))


def is_about(pattern: str, url: str) -> bool:
    """Return whether `url` is a service of this machine, and the one named by such a rule if that
    names one."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 0)
    except ValueError:
        return False
    here = port_of(f"{(parts.hostname or '').rstrip('.')}:{port}")
    return here is not None and (not pattern or port_of(pattern) == here)


def _ports(rules: Iterable[str]) -> Iterable[int]:
    for rule in rules:
        if (found := _RULE.fullmatch(rule)) and (port := port_of(found[1])) is not None:
            yield port
