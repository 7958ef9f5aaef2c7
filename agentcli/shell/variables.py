"""Exported variables of a shell: what commands changed, and which changes outlive the process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from agentcli.security.redact import is_secret
from agentcli.system.processes import ENVIRONMENT_MARK
from agentcli.workspace.names import OUTPUTS_VARIABLE

WITHHELD = "[redacted]"
"""Stored in place of a secret; the masking of secrets in events writes the same text."""
_LONGEST_VALUE = 32_768
_MOST_CHANGES = 200

_INTERNAL = re.compile(
    r"PWD|OLDPWD|SHLVL|_|LINES|COLUMNS|PS\d|PROMPT_COMMAND|(?:BASH|SHELL)OPTS|BASH_\w*"
    rf"|POSIXLY_CORRECT|{ENVIRONMENT_MARK}|AGENT_SESSION_ID|{OUTPUTS_VARIABLE}|_agent_\w*"
)
"""Variables that bash maintains itself, that set its modes, or that are marks of ours."""
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_ENTRY = re.compile(
    rb"^(?:declare|export) (?:-(\w+) )?([A-Za-z_]\w*)="
    rb"""(?:"([^"\\]*(?:\\.[^"\\]*)*)"|\$'([^'\\]*(?:\\.[^'\\]*)*)')$""",
    re.MULTILINE | re.DOTALL,
)
_NOT_IN_ENVIRONMENT = frozenset(b"aAn")
"""Attributes of arrays and name references."""
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|(.))", re.DOTALL)
_QUOTED = re.compile(rb"\\(.)", re.DOTALL)
_CONTROLS = dict(zip(b"abEfnrtv", (bytes([code]) for code in b"\a\b\x1b\f\n\r\t\v"), strict=True))
_WEAKEST = "none"
"""The layer of commands without a sandbox, which can do everything that others can."""
_HARMLESS = (
    (
        re.compile(r"CI|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|SOURCE_DATE_EPOCH"),
        re.compile(r"[A-Za-z0-9]{0,12}"),
    ),
    (
        re.compile(r"LANG|LC_[A-Z]{1,20}"),
        re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}(?:\.[A-Za-z0-9-]{1,20})?"),
    ),
    (
        re.compile(r"TZ"),
        re.compile(r"[A-Za-z][A-Za-z0-9_+-]{0,30}(?:/[A-Za-z][A-Za-z0-9_+-]{0,30}){0,2}"),
    ),
)
"""Names and values of the only variables that may reach commands with more rights than those that
set them."""


Value = TypeVar("Value")


class ExportWatch:
    """Compares each listing of the exported variables with the one before."""

    def __init__(self) -> None:
        self._listing = b""
        self._values: dict[str, str] | None = None

    def changes(self, listing: bytes) -> dict[str, str | None]:
        """Return what changed since the previous listing, with unset variables as None; nothing for
        the first listing. `listing` is as `export -p` writes it; an empty one is ignored."""
        if not listing or listing == self._listing:
            return {}
        before, now = self._values, parse_listing(listing)
        self._listing, self._values = listing, now
        if before is None:
            return {}
        changed: dict[str, str | None] = dict.fromkeys(before.keys() - now.keys())
        changed |= {name: value for name, value in now.items() if before.get(name) != value}
        return changed


def parse_listing(listing: bytes) -> dict[str, str]:
    """Return the environment that programs would see, without bash's own variables and ours.

    Bytes that are not UTF-8 become surrogates, as in os.environ.
    """
    values: dict[str, str] = {}
    for flags, name, quoted, escaped in _ENTRY.findall(listing):
        if _NOT_IN_ENVIRONMENT.isdisjoint(flags):
            value = _ESCAPE.sub(_unescaped, escaped) if escaped else _QUOTED.sub(rb"\1", quoted)
            values[name.decode()] = value.decode("utf-8", "surrogateescape")
    return without_internal(values)


def without_internal(values: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value for name, value in values.items() if not _INTERNAL.fullmatch(name)}


def storable(changes: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the `changes` that may be recorded: none if there are more than 200, and no value that
    is longer than 32 kB or not text. `WITHHELD` replaces the value of a secret."""
    if len(changes) > _MOST_CHANGES:
        return {}
    return {
        name: WITHHELD if value and is_secret(name, value) else value
        for name, value in changes.items()
        if _is_text(value)
    }


class Exports:
    """What commands changed of the exported variables (None: unset), and in which sandbox layer
    each was set, as that decides where the value may go."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str], str | None] = {}
        """By variable and layer, the newest last."""

    def add(self, changes: Mapping[str, str | None], layer: str) -> None:
        for name, value in without_internal(changes).items():
            self._changes.pop((name, layer), None)
            self._changes[name, layer] = value

    def inside(self, layer: str, env: Mapping[str, str]) -> dict[str, str | None]:
        """Return the changes that commands in `layer` may have."""
        return self._split(layer, env)[0]

    def withheld(self, layer: str, env: Mapping[str, str]) -> tuple[str, ...]:
        """Return the variables that commands in `layer` don't get as they were last set, unless
        their environment, `env`, has the same value anyway."""
        return self._split(layer, env)[1]

    def _split(
        self, layer: str, env: Mapping[str, str]
    ) -> tuple[dict[str, str | None], tuple[str, ...]]:
        given: dict[str, str | None] = {}
        kept_back: dict[str, str | None] = {}
        for (name, origin), value in self._changes.items():
            if may_cross(origin, layer) or _is_harmless(name, value):
                given[name] = value
                kept_back.pop(name, None)
            else:
                kept_back[name] = value
        withheld = (n for n, value in kept_back.items() if value != given.get(n, env.get(n)))
        return given, tuple(sorted(withheld))


def may_cross(origin: str, layer: str) -> bool:
    """Whether commands in `layer` may use a value that a command in the layer `origin` set: not if
    they have more rights than that command had. A value of unknown origin is refused."""
    return origin in (layer, _WEAKEST) or (origin, layer) == ("landlock", "bubblewrap")


def _is_harmless(name: str, value: str | None) -> bool:
    """Whether the variable can only change how programs write their output."""
    return value is not None and any(
        names.fullmatch(name) and values.fullmatch(value) for names, values in _HARMLESS
    )


def restorable(
    exports: Mapping[str, str | None], mask: str
) -> tuple[dict[str, str | None], tuple[str, ...]]:
    """Return the exports with which a shell can start, and the names of those whose value contains
    `mask` and so was withheld. Both leave out invalid names and values."""
    known = {
        name: value
        for name, value in without_internal(exports).items()
        if _NAME.fullmatch(name) and _is_text(value)
    }
    withheld = {name for name, value in known.items() if value and mask in value}
    return (
        {name: value for name, value in known.items() if name not in withheld},
        tuple(sorted(withheld)),
    )


def _is_text(value: str | None) -> bool:
    if value is None:
        return True
    try:
        return len(value.encode()) <= _LONGEST_VALUE and "\0" not in value
    except UnicodeEncodeError:
        return False


def _unescaped(match: re.Match[bytes]) -> bytes:
    octal, letter = match.groups()
    if octal:
        return bytes([int(octal, 8) & 0xFF])
    return _CONTROLS.get(letter[0], letter)
