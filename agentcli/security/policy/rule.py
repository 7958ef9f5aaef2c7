"""One rule of the policy: what it covers of files (globs like those of .gitignore, matched with a
path's real location), of reading, and of the machine's loopback (network(127.0.0.1:5432))."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal
from unicodedata import normalize
from urllib.parse import urlsplit

from agentcli.workspace.guard import ReadingRule, ReadingRules
from agentcli.workspace.scope import AccessScope
from agentcli.workspace.wildcards import (
    NOTHING,
    expand_braces,
    has_wildcards,
    translate,
    unescaped,
    variants,
)

Decision = Literal["allow", "ask", "deny"]
Pattern = Literal["", "command", "path", "url"]
"""What the brackets of `tool(pattern)` hold: nothing, the words of a command, globs for paths, or a
site as domain:name. It is compared with the argument of the tool call that has this name."""


@dataclass(frozen=True)
class Rule:
    """A rule that the user wrote. An empty `pattern` covers everything the tool does. `origin`
    says where it was set. `here`: it was made in this workspace, not in global settings."""

    decision: Decision
    tool: str
    pattern: str
    origin: str
    here: bool = False

    def __str__(self) -> str:
        return f"{self.tool}({self.pattern})" if self.pattern else self.tool


def pattern_matches(pattern: str, path: Path | str, workspace: Path, home: Path) -> bool:
    """Return whether `pattern` matches the absolute `path` or a folder around it. A pattern without
    a slash matches at any depth below `workspace`; ~ is `home`."""
    return _compiled(pattern, workspace, home).fullmatch(str(path)) is not None


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str, workspace: Path, home: Path) -> re.Pattern[str]:
    # One name can be stored with composed or decomposed letters, and both look alike.
    forms = dict.fromkeys((pattern, normalize("NFC", pattern), normalize("NFD", pattern)))
    each = (variant for form in forms for variant in variants(form))
    found = dict.fromkeys(_expression(variant, workspace, home) for variant in each)
    return re.compile("|".join(found), re.DOTALL)


def _expression(pattern: str, workspace: Path, home: Path) -> str:
    """Translate a pattern. The part before its first wildcard is resolved, like the paths it is
    compared with."""
    base = workspace
    if pattern == "~" or pattern.startswith("~/"):
        base, pattern = home, pattern[2:]
    elif pattern.startswith("/"):
        base = Path("/")
    elif "/" not in pattern.removeprefix("./").rstrip("/"):
        pattern = f"**/{pattern}"
    parts = [part for part in pattern.removesuffix("/**").split("/") if part not in ("", ".")]
    plain = next((at for at, part in enumerate(parts) if has_wildcards(part)), len(parts))
    fixed = os.path.realpath(base.joinpath(*map(unescaped, parts[:plain])))
    wild = translate("/".join(parts[plain:])) if ".." not in parts[plain:] else NOTHING
    return re.escape(fixed).rstrip("/") + (f"/{wild}" if wild else "") + "(?:/.*)?"


def matches_nothing(pattern: str, workspace: Path, home: Path) -> bool:
    """Return whether no path can match, apart from one of exactly this name, which there is not."""
    literal = f"{home}{pattern[1:]}" if pattern.startswith("~/") else pattern
    wild = [
        NOTHING in _expression(each, workspace, home)
        for each in expand_braces(pattern)
        if has_wildcards(each)
    ]
    return bool(wild) and all(wild) and not os.path.lexists(workspace / literal)


def escaped(path: str) -> str:
    """Return a pattern that matches only this path."""
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


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


READING = "read"
"""Rules for this tool cover whatever reads files."""


def reading_rules(
    rules: Iterable[Rule], workspace: Path, home: Path, *, asks: bool, scope: AccessScope | None
) -> ReadingRules:
    """Return what `rules` say about reading. Those without a pattern are about calls alone."""
    return ReadingRules(
        [
            ReadingRule(
                rule.decision,
                "" if rule.tool == READING else rule.tool,
                partial(pattern_matches, rule.pattern, workspace=workspace, home=home),
                f"the rule {rule} of {rule.origin}",
            )
            for rule in rules
            if rule.pattern
        ],
        asks,
        scope,
    )
